-- +goose Up
CREATE TABLE users (
    id         BIGINT       NOT NULL AUTO_INCREMENT,
    phone      VARCHAR(20)  NOT NULL,
    nick_name  VARCHAR(64)  NOT NULL,
    icon       VARCHAR(255) NOT NULL DEFAULT '',
    role       VARCHAR(16)  NOT NULL DEFAULT 'buyer',
    created_at DATETIME(3)  NOT NULL,
    updated_at DATETIME(3)  NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY uk_phone (phone)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE users;
