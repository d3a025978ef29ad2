-- +goose Up
-- What a provider reported about a payment and the server could not read or match. source: notice, or query (the answer
-- to one). content: SHA-256 that is equal for repetitions. provider_ref and order_id as far as they could be read.
-- closed_at: when an operator closed it.
CREATE TABLE payment_notices (
    id           BIGINT       NOT NULL AUTO_INCREMENT,
    provider     VARCHAR(32)  NOT NULL,
    source       VARCHAR(8)   NOT NULL,
    content      BINARY(32)   NOT NULL,
    provider_ref VARCHAR(128) NOT NULL DEFAULT '',
    order_id     BIGINT       NULL,
    reason       VARCHAR(255) NOT NULL,
    body         MEDIUMBLOB   NOT NULL,
    times        INT          NOT NULL DEFAULT 1,
    received_at  DATETIME(3)  NOT NULL,
    last_at      DATETIME(3)  NOT NULL,
    closed_at    DATETIME(3)  NULL,
    PRIMARY KEY (id),
    UNIQUE KEY uk_content (provider, content),
    KEY idx_closed (closed_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE payment_notices;
