-- +goose Up
-- One row per request for a login code, instead of one per phone. Codes live 2 minutes, so no row is worth keeping.
DROP TABLE login_codes;
-- login_id is known only to the client that made the request. asker identifies its device or network, hashed.
CREATE TABLE login_codes (
    login_id            VARBINARY(26) NOT NULL,
    phone               VARCHAR(20)   NOT NULL,
    asker               BINARY(16)    NOT NULL,
    code_hash           VARBINARY(32) NOT NULL,
    attempts            INT           NOT NULL,
    attempts_without_id INT           NOT NULL,
    created_at          DATETIME(3)   NOT NULL,
    expires_at          DATETIME(3)   NOT NULL,
    PRIMARY KEY (login_id),
    KEY idx_phone_asker (phone, asker, created_at),
    KEY idx_created (created_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE login_codes;
CREATE TABLE login_codes (
    phone        VARCHAR(20)   NOT NULL,
    code_hash    VARBINARY(32) NOT NULL,
    attempts     INT           NOT NULL,
    sent_at      DATETIME(3)   NOT NULL,
    expires_at   DATETIME(3)   NOT NULL,
    window_start DATETIME(3)   NOT NULL,
    sent_count   INT           NOT NULL,
    PRIMARY KEY (phone)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
