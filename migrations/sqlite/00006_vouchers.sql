-- +goose Up
-- type: 0 normal, 1 seckill. status: 1 on, 2 off, 3 expired. Amounts are in cents.
CREATE TABLE vouchers (
    id           INTEGER  PRIMARY KEY AUTOINCREMENT,
    shop_id      INTEGER  NOT NULL,
    title        TEXT     NOT NULL,
    sub_title    TEXT     NOT NULL DEFAULT '',
    rules        TEXT     NOT NULL DEFAULT '',
    pay_value    INTEGER  NOT NULL,
    actual_value INTEGER  NOT NULL,
    type         INTEGER  NOT NULL,
    status       INTEGER  NOT NULL,
    created_at   DATETIME NOT NULL,
    updated_at   DATETIME NOT NULL
);
CREATE INDEX idx_vouchers_shop ON vouchers (shop_id, id);

-- +goose Down
DROP TABLE vouchers;
