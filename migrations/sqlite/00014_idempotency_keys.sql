-- +goose Up
-- One row an Idempotency-Key of a user. claim names the run that holds the key until locked_until, and only that run
-- may write here; runs counts them. resource_id and resource_at are what the request is about (the order that it
-- places, the voucher that it makes); done says that the effect is committed. status is 0 until there is an answer.
CREATE TABLE idempotency_keys (
    user_id      INTEGER  NOT NULL,
    idem_key     BLOB     NOT NULL,
    fingerprint  BLOB     NOT NULL,
    claim        INTEGER  NOT NULL,
    runs         INTEGER  NOT NULL,
    locked_until DATETIME NOT NULL,
    resource_id  INTEGER  NULL,
    resource_at  DATETIME NULL,
    done         INTEGER  NOT NULL,
    status       INTEGER  NOT NULL,
    location     TEXT     NOT NULL,
    content_type TEXT     NOT NULL,
    body         BLOB     NULL,
    created_at   DATETIME NOT NULL,
    expires_at   DATETIME NOT NULL,
    PRIMARY KEY (user_id, idem_key)
);
CREATE INDEX idx_idempotency_keys_expires ON idempotency_keys (expires_at);

-- +goose Down
DROP TABLE idempotency_keys;
