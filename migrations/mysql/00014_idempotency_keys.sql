-- +goose Up
-- One row an Idempotency-Key of a user. claim names the run that holds the key until locked_until, and only that run
-- may write here; runs counts them. resource_id and resource_at are what the request is about (the order that it
-- places, the voucher that it makes); done says that the effect is committed. status is 0 until there is an answer.
CREATE TABLE idempotency_keys (
    user_id      BIGINT         NOT NULL,
    idem_key     VARBINARY(255) NOT NULL,
    fingerprint  BINARY(32)     NOT NULL,
    claim        BIGINT         NOT NULL,
    runs         INT            NOT NULL,
    locked_until DATETIME(3)    NOT NULL,
    resource_id  BIGINT         NULL,
    resource_at  DATETIME(3)    NULL,
    done         TINYINT        NOT NULL,
    status       SMALLINT       NOT NULL,
    location     VARCHAR(255)   NOT NULL,
    content_type VARCHAR(100)   NOT NULL,
    body         MEDIUMBLOB     NULL,
    created_at   DATETIME(3)    NOT NULL,
    expires_at   DATETIME(3)    NOT NULL,
    PRIMARY KEY (user_id, idem_key),
    KEY idx_expires (expires_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE idempotency_keys;
