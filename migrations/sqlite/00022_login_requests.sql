-- +goose Up
-- One row per request for a login code, instead of one per phone. Codes live 2 minutes, so no row is worth keeping.
DROP TABLE login_codes;
-- login_id is known only to the client that made the request. asker identifies its device or network, hashed.
CREATE TABLE login_codes (
    login_id            TEXT     NOT NULL PRIMARY KEY,
    phone               TEXT     NOT NULL,
    asker               BLOB     NOT NULL,
    code_hash           BLOB     NOT NULL,
    attempts            INTEGER  NOT NULL,
    attempts_without_id INTEGER  NOT NULL,
    created_at          DATETIME NOT NULL,
    expires_at          DATETIME NOT NULL
);
CREATE INDEX idx_login_codes_phone_asker ON login_codes (phone, asker, created_at);
CREATE INDEX idx_login_codes_created ON login_codes (created_at);

-- +goose Down
DROP TABLE login_codes;
CREATE TABLE login_codes (
    phone        TEXT     NOT NULL PRIMARY KEY,
    code_hash    BLOB     NOT NULL,
    attempts     INTEGER  NOT NULL,
    sent_at      DATETIME NOT NULL,
    expires_at   DATETIME NOT NULL,
    window_start DATETIME NOT NULL,
    sent_count   INTEGER  NOT NULL
);
