-- +goose Up
-- score is in tenths (47 = 4.7), avg_price in cents.
CREATE TABLE shops (
    id         BIGINT        NOT NULL AUTO_INCREMENT,
    name       VARCHAR(128)  NOT NULL,
    type_id    BIGINT        NOT NULL,
    images     VARCHAR(1024) NOT NULL DEFAULT '',
    area       VARCHAR(128)  NOT NULL DEFAULT '',
    address    VARCHAR(255)  NOT NULL DEFAULT '',
    x          DOUBLE        NOT NULL DEFAULT 0,
    y          DOUBLE        NOT NULL DEFAULT 0,
    avg_price  BIGINT        NOT NULL DEFAULT 0,
    sold       INT           NOT NULL DEFAULT 0,
    comments   INT           NOT NULL DEFAULT 0,
    score      INT           NOT NULL DEFAULT 0,
    open_hours VARCHAR(32)   NOT NULL DEFAULT '',
    created_at DATETIME(3)   NOT NULL,
    updated_at DATETIME(3)   NOT NULL,
    PRIMARY KEY (id),
    KEY idx_type (type_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE shops;
