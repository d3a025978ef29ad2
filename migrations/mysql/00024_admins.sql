-- +goose Up
-- The authenticator apps of users (TOTP). secret is encrypted. last_step is the time step of the last accepted password:
-- each password is accepted once.
CREATE TABLE second_factors (
    user_id     BIGINT         NOT NULL,
    secret      VARBINARY(128) NOT NULL,
    last_step   BIGINT         NOT NULL,
    enrolled_at DATETIME(3)    NOT NULL,
    PRIMARY KEY (user_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Whether the session was opened with a second factor. Only metadata changes.
ALTER TABLE sessions ADD COLUMN second_factor TINYINT NOT NULL DEFAULT 0;

-- Requests of admins, and commands on the server (user_id 0). route is a pattern or a command, target the id in the path,
-- network the IPv4 /24 or IPv6 /48 of the client. status 0: the request has no known end.
CREATE TABLE admin_requests (
    id         BIGINT       NOT NULL AUTO_INCREMENT,
    at         DATETIME(3)  NOT NULL,
    user_id    BIGINT       NOT NULL,
    role       VARCHAR(16)  NOT NULL,
    method     VARCHAR(8)   NOT NULL,
    route      VARCHAR(100) NOT NULL,
    target     VARCHAR(64)  NOT NULL,
    status     SMALLINT     NOT NULL,
    request_id VARCHAR(64)  NOT NULL,
    network    VARCHAR(50)  NOT NULL,
    PRIMARY KEY (id),
    KEY idx_user (user_id, id),
    KEY idx_target (target, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE admin_requests;
ALTER TABLE sessions DROP COLUMN second_factor;
DROP TABLE second_factors;
