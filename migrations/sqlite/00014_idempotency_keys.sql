-- +goose Up
-- One row per user and Idempotency-Key. claim is the token of the run that has the lease until locked_until. Only this
-- run may update the row. runs counts the runs. resource_id and resource_at identify the result of the request, for
-- example a created voucher. done is 1 once the effect is committed. status is 0 until an answer is stored.
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
