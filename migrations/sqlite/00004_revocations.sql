-- +goose Up
-- What every instance reads to refuse the access tokens of ended sessions. seq orders the rows; a row is
-- needed until keep_until, when the last access token of the session has expired.
CREATE TABLE revocations (
    seq        INTEGER  PRIMARY KEY AUTOINCREMENT,
    session_id TEXT     NOT NULL,
    keep_until DATETIME NOT NULL
);
CREATE INDEX idx_revocations_keep_until ON revocations (keep_until);

-- +goose Down
DROP TABLE revocations;
