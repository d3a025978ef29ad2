-- +goose Up
-- Actions on vouchers and orders, written in the same transaction as the action. Placing an order has no entry, because
-- the order itself is the record. actor is buyer, admin, provider or system; actor_id is the id of a user, or 0.
CREATE TABLE audit_log (
    id         INTEGER  PRIMARY KEY AUTOINCREMENT,
    at         DATETIME NOT NULL,
    actor      TEXT     NOT NULL,
    actor_id   INTEGER  NOT NULL,
    action     TEXT     NOT NULL,
    voucher_id INTEGER  NOT NULL,
    order_id   INTEGER  NULL,
    detail     TEXT     NOT NULL
);
CREATE INDEX idx_audit_voucher ON audit_log (voucher_id, id);
CREATE INDEX idx_audit_order ON audit_log (order_id, id);
CREATE INDEX idx_audit_actor ON audit_log (actor_id, id);

-- +goose Down
DROP TABLE audit_log;
