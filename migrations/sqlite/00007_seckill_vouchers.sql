-- +goose Up
-- One row per sale, which all its orders update. The CHECK is the last guard against overselling.
CREATE TABLE seckill_vouchers (
    voucher_id     INTEGER  PRIMARY KEY,
    initial_stock  INTEGER  NOT NULL,
    stock          INTEGER  NOT NULL CONSTRAINT ck_stock CHECK (stock >= 0),
    begin_at       DATETIME NOT NULL,
    end_at         DATETIME NOT NULL,
    limit_per_user INTEGER  NOT NULL DEFAULT 1,
    created_at     DATETIME NOT NULL,
    updated_at     DATETIME NOT NULL
);

-- +goose Down
DROP TABLE seckill_vouchers;
