-- +goose Up
-- generation counts the refreshes of a session. Only its newest refresh token is valid.
CREATE TABLE sessions (
    id         TEXT     NOT NULL PRIMARY KEY,
    user_id    INTEGER  NOT NULL,
    generation INTEGER  NOT NULL,
    created_at DATETIME NOT NULL,
    expires_at DATETIME NOT NULL,
    revoked_at DATETIME NULL
);
CREATE INDEX idx_sessions_user ON sessions (user_id);
CREATE INDEX idx_sessions_expires ON sessions (expires_at);

-- +goose Down
DROP TABLE sessions;
