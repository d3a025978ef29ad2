-- +goose Up
-- Ended sessions, whose access tokens every instance rejects. seq orders the rows. A row is needed until keep_until,
-- when the last access token of the session has expired.
CREATE TABLE revocations (
    seq        BIGINT      NOT NULL AUTO_INCREMENT,
    session_id VARCHAR(32) NOT NULL,
    keep_until DATETIME(3) NOT NULL,
    PRIMARY KEY (seq),
    KEY idx_keep_until (keep_until)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE revocations;
