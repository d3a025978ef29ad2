-- +goose Up
-- One row per user and Idempotency-Key. claim is the token of the run that has the lease until locked_until. Only this
-- run may update the row. runs counts the runs. resource_id and resource_at identify the result of the request, for
-- example a created voucher. done is 1 once the effect is committed. status is 0 until an answer is stored.
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
