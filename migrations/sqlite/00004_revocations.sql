-- +goose Up
-- Ended sessions, whose access tokens every instance rejects. seq orders the rows. A row is needed until keep_until,
-- when the last access token of the session has expired.
CREATE TABLE revocations (
    seq        INTEGER  PRIMARY KEY AUTOINCREMENT,
    session_id TEXT     NOT NULL,
    keep_until DATETIME NOT NULL
);
CREATE INDEX idx_revocations_keep_until ON revocations (keep_until);

-- +goose Down
DROP TABLE revocations;
