-- +goose Up
-- The outbox: one row per placement and move of an order, written in its transaction while SECKILL_EVENTS_URL is set.
-- status: 1 pending, 2 delivered, 3 failed. next_try_at is NULL unless the event is pending. The events of an order have
-- ascending ids, because its row is locked while they are written.
CREATE TABLE order_events (
    id            INTEGER  PRIMARY KEY AUTOINCREMENT,
    order_id      INTEGER  NOT NULL,
    type          TEXT     NOT NULL,
    status        INTEGER  NOT NULL DEFAULT 1,
    created_at    DATETIME NOT NULL,
    repeated_at   DATETIME NULL,
    next_try_at   DATETIME NULL,
    tries         INTEGER  NOT NULL DEFAULT 0,
    answered_at   DATETIME NULL,
    answer_status INTEGER  NOT NULL DEFAULT 0,
    answer        TEXT     NOT NULL DEFAULT ''
);
CREATE INDEX idx_order_events_order ON order_events (order_id);
CREATE INDEX idx_order_events_status_next_try ON order_events (status, next_try_at);

-- +goose Down
DROP TABLE order_events;
