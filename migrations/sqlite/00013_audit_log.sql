-- +goose Up
-- Who did what to which voucher or order: written in the transaction that does it. The order that was placed is its own
-- record. actor is buyer, admin, provider or system; actor_id is a user's id, 0 for the others.
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
