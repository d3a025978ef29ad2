-- +goose Up
-- One row per phone: the last code, and the number of codes sent since window_start.
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

-- +goose Down
DROP TABLE login_codes;
