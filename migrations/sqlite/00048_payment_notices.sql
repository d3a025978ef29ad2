-- +goose Up
-- What a provider reported about a payment and the server could not read or match. source: notice, or query (the answer
-- to one). content: SHA-256 that is equal for repetitions. provider_ref and order_id as far as they could be read.
-- closed_at: when an operator closed it.
CREATE TABLE payment_notices (
    id           INTEGER  PRIMARY KEY AUTOINCREMENT,
    provider     TEXT     NOT NULL,
    source       TEXT     NOT NULL,
    content      BLOB     NOT NULL,
    provider_ref TEXT     NOT NULL DEFAULT '',
    order_id     INTEGER  NULL,
    reason       TEXT     NOT NULL,
    body         BLOB     NOT NULL,
    times        INTEGER  NOT NULL DEFAULT 1,
    received_at  DATETIME NOT NULL,
    last_at      DATETIME NOT NULL,
    closed_at    DATETIME NULL
);
CREATE UNIQUE INDEX uk_content ON payment_notices (provider, content);
CREATE INDEX idx_payment_notices_closed ON payment_notices (closed_at);

-- +goose Down
DROP TABLE payment_notices;
