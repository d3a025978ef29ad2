-- +goose Up
-- The outbox: one row per placement and move of an order, written in its transaction while SECKILL_EVENTS_URL is set.
-- status: 1 pending, 2 delivered, 3 failed. next_try_at is NULL unless the event is pending. The events of an order have
-- ascending ids, because its row is locked while they are written.
CREATE TABLE order_events (
    id            BIGINT        NOT NULL AUTO_INCREMENT,
    order_id      BIGINT        NOT NULL,
    type          VARCHAR(16)   NOT NULL,
    status        TINYINT       NOT NULL DEFAULT 1,
    created_at    DATETIME(3)   NOT NULL,
    repeated_at   DATETIME(3)   NULL,
    next_try_at   DATETIME(3)   NULL,
    tries         INT           NOT NULL DEFAULT 0,
    answered_at   DATETIME(3)   NULL,
    answer_status SMALLINT      NOT NULL DEFAULT 0,
    answer        VARCHAR(1024) NOT NULL DEFAULT '',
    PRIMARY KEY (id),
    KEY idx_order (order_id),
    KEY idx_status_next_try (status, next_try_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE order_events;
