-- +goose Up
-- generation counts the refreshes of a session. Only its newest refresh token is valid.
CREATE TABLE sessions (
    id         VARCHAR(32) NOT NULL,
    user_id    BIGINT      NOT NULL,
    generation BIGINT      NOT NULL,
    created_at DATETIME(3) NOT NULL,
    expires_at DATETIME(3) NOT NULL,
    revoked_at DATETIME(3) NULL,
    PRIMARY KEY (id),
    KEY idx_user (user_id),
    KEY idx_expires (expires_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE sessions;
