-- +goose Up
-- generation counts refreshes: only the newest refresh token of a session is good.
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
