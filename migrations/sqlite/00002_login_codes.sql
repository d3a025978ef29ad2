-- +goose Up
-- One row per phone: the last code, and the number of codes sent since window_start.
CREATE TABLE login_codes (
    phone        TEXT     NOT NULL PRIMARY KEY,
    code_hash    BLOB     NOT NULL,
    attempts     INTEGER  NOT NULL,
    sent_at      DATETIME NOT NULL,
    expires_at   DATETIME NOT NULL,
    window_start DATETIME NOT NULL,
    sent_count   INTEGER  NOT NULL
);

-- +goose Down
DROP TABLE login_codes;
