-- +goose Up
-- The authenticator apps of users (TOTP). secret is encrypted. last_step is the time step of the last accepted password:
-- each password is accepted once.
CREATE TABLE second_factors (
    user_id     INTEGER  NOT NULL PRIMARY KEY,
    secret      BLOB     NOT NULL,
    last_step   INTEGER  NOT NULL,
    enrolled_at DATETIME NOT NULL
);

-- Whether the session was opened with a second factor.
ALTER TABLE sessions ADD COLUMN second_factor INTEGER NOT NULL DEFAULT 0;

-- Requests of admins, and commands on the server (user_id 0). route is a pattern or a command, target the id in the path,
-- network the IPv4 /24 or IPv6 /48 of the client. status 0: the request has no known end.
CREATE TABLE admin_requests (
    id         INTEGER  PRIMARY KEY AUTOINCREMENT,
    at         DATETIME NOT NULL,
    user_id    INTEGER  NOT NULL,
    role       TEXT     NOT NULL,
    method     TEXT     NOT NULL,
    route      TEXT     NOT NULL,
    target     TEXT     NOT NULL,
    status     INTEGER  NOT NULL,
    request_id TEXT     NOT NULL,
    network    TEXT     NOT NULL
);
CREATE INDEX idx_admin_requests_user ON admin_requests (user_id, id);
CREATE INDEX idx_admin_requests_target ON admin_requests (target, id);

-- +goose Down
DROP TABLE admin_requests;
ALTER TABLE sessions DROP COLUMN second_factor;
DROP TABLE second_factors;
