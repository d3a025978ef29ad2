-- +goose Up
-- Units added to a sale or removed from it after its creation. initial_stock is not included.
CREATE TABLE stock_changes (
    id         INTEGER  PRIMARY KEY AUTOINCREMENT,
    voucher_id INTEGER  NOT NULL,
    delta      INTEGER  NOT NULL,
    reason     TEXT     NOT NULL,
    actor_id   INTEGER  NOT NULL,
    created_at DATETIME NOT NULL
);
CREATE INDEX idx_stock_changes_voucher ON stock_changes (voucher_id);

-- +goose Down
DROP TABLE stock_changes;
