-- +goose Up
-- provider_ref is the provider's reference of the payment. It is unique, so a repeated webhook call counts once.
CREATE TABLE payments (
    id           INTEGER  PRIMARY KEY AUTOINCREMENT,
    order_id     INTEGER  NOT NULL,
    provider     TEXT     NOT NULL,
    provider_ref TEXT     NOT NULL CONSTRAINT uk_provider_ref UNIQUE,
    amount       INTEGER  NOT NULL,
    status       INTEGER  NOT NULL,
    created_at   DATETIME NOT NULL,
    updated_at   DATETIME NOT NULL
);
CREATE INDEX idx_payments_order ON payments (order_id);

-- +goose Down
DROP TABLE payments;
