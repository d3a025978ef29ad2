-- The schema of migration 25 and what a server of that version stored: demo data and a sale of 1,000 units (voucher 5)
-- with a paid, a cancelled and an unpaid order. TestPreviousSchema begins with it. Made with mariadb-dump; the end of
-- the sale and the deadline of the unpaid order are set to 2099.
CREATE TABLE `admin_requests` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `at` datetime(3) NOT NULL,
  `user_id` bigint(20) NOT NULL,
  `role` varchar(16) NOT NULL,
  `method` varchar(8) NOT NULL,
  `route` varchar(100) NOT NULL,
  `target` varchar(64) NOT NULL,
  `status` smallint(6) NOT NULL,
  `request_id` varchar(64) NOT NULL,
  `network` varchar(50) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `idx_user` (`user_id`,`id`),
  KEY `idx_target` (`target`,`id`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO `admin_requests` VALUES
(1,'2026-11-22 21:51:14.742',1,'admin','POST','/api/v1/auth/login','',200,'LGZGCL6SNACNZIUSHE3ACVCDAT','127.0.0.0/24'),
(2,'2026-11-22 21:51:14.744',1,'admin','POST','/api/v1/admin/vouchers','',201,'NVJ6ZCSZFEVPA77S5ZUM7JRD5L','127.0.0.0/24');
CREATE TABLE `audit_log` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `at` datetime(3) NOT NULL,
  `actor` varchar(16) NOT NULL,
  `actor_id` bigint(20) NOT NULL,
  `action` varchar(32) NOT NULL,
  `voucher_id` bigint(20) NOT NULL,
  `order_id` bigint(20) DEFAULT NULL,
  `detail` text NOT NULL,
  PRIMARY KEY (`id`),
  KEY `idx_voucher` (`voucher_id`,`id`),
  KEY `idx_order` (`order_id`,`id`),
  KEY `idx_actor` (`actor_id`,`id`)
) ENGINE=InnoDB AUTO_INCREMENT=4 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO `audit_log` VALUES
(1,'2026-11-22 21:51:14.744','admin',1,'create_voucher',5,NULL,''),
(2,'2026-11-22 21:51:14.815','buyer',3,'cancel',5,3373502137664528072,''),
(3,'2026-11-22 21:51:15.115','provider',0,'pay',5,3373502137664528071,'pay_QBHE47WMXJWDOR7T3ITGQ4GJMP');
CREATE TABLE `goose_db_version` (
  `id` bigint(20) unsigned NOT NULL AUTO_INCREMENT,
  `version_id` bigint(20) NOT NULL,
  `is_applied` tinyint(1) NOT NULL,
  `tstamp` datetime DEFAULT current_timestamp(),
  PRIMARY KEY (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=27 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO `goose_db_version` VALUES
(1,0,1,'2026-11-22 21:51:14'),
(2,1,1,'2026-11-22 21:51:14'),
(3,2,1,'2026-11-22 21:51:14'),
(4,3,1,'2026-11-22 21:51:14'),
(5,4,1,'2026-11-22 21:51:14'),
(6,5,1,'2026-11-22 21:51:14'),
(7,6,1,'2026-11-22 21:51:14'),
(8,7,1,'2026-11-22 21:51:14'),
(9,8,1,'2026-11-22 21:51:14'),
(10,9,1,'2026-11-22 21:51:14'),
(11,10,1,'2026-11-22 21:51:14'),
(12,11,1,'2026-11-22 21:51:14'),
(13,12,1,'2026-11-22 21:51:14'),
(14,13,1,'2026-11-22 21:51:14'),
(15,14,1,'2026-11-22 21:51:14'),
(16,15,1,'2026-11-22 21:51:14'),
(17,16,1,'2026-11-22 21:51:14'),
(18,17,1,'2026-11-22 21:51:14'),
(19,18,1,'2026-11-22 21:51:14'),
(20,19,1,'2026-11-22 21:51:14'),
(21,20,1,'2026-11-22 21:51:14'),
(22,21,1,'2026-11-22 21:51:14'),
(23,22,1,'2026-11-22 21:51:14'),
(24,23,1,'2026-11-22 21:51:14'),
(25,24,1,'2026-11-22 21:51:14'),
(26,25,1,'2026-11-22 21:51:14');
CREATE TABLE `idempotency_keys` (
  `user_id` bigint(20) NOT NULL,
  `idem_key` varbinary(255) NOT NULL,
  `fingerprint` binary(32) NOT NULL,
  `claim` bigint(20) NOT NULL,
  `runs` int(11) NOT NULL,
  `locked_until` datetime(3) NOT NULL,
  `resource_id` bigint(20) DEFAULT NULL,
  `resource_at` datetime(3) DEFAULT NULL,
  `done` tinyint(4) NOT NULL,
  `status` smallint(6) NOT NULL,
  `location` varchar(255) NOT NULL,
  `content_type` varchar(100) NOT NULL,
  `body` mediumblob DEFAULT NULL,
  `created_at` datetime(3) NOT NULL,
  `expires_at` datetime(3) NOT NULL,
  PRIMARY KEY (`user_id`,`idem_key`),
  KEY `idx_expires` (`expires_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
CREATE TABLE `login_codes` (
  `login_id` varbinary(26) NOT NULL,
  `phone` varchar(20) NOT NULL,
  `asker` binary(16) NOT NULL,
  `code_hash` varbinary(32) NOT NULL,
  `attempts` int(11) NOT NULL,
  `attempts_without_id` int(11) NOT NULL,
  `created_at` datetime(3) NOT NULL,
  `expires_at` datetime(3) NOT NULL,
  PRIMARY KEY (`login_id`),
  KEY `idx_phone_asker` (`phone`,`asker`,`created_at`),
  KEY `idx_created` (`created_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO `login_codes` VALUES
('L2RZZ42EEPAHJMXYANPLED45CF','13800000000','\n�+���e��_	_}x','',1,0,'2026-11-22 21:51:14.737','2026-11-22 21:53:14.737');
CREATE TABLE `payments` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `order_id` bigint(20) NOT NULL,
  `provider` varchar(32) NOT NULL,
  `provider_ref` varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `amount` bigint(20) NOT NULL,
  `status` tinyint(4) NOT NULL,
  `created_at` datetime(3) NOT NULL,
  `updated_at` datetime(3) NOT NULL,
  `currency` char(3) NOT NULL DEFAULT 'CNY',
  `refund_tries` int(11) NOT NULL DEFAULT 0,
  `next_try_at` datetime(3) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uk_provider_ref` (`provider_ref`),
  KEY `idx_order` (`order_id`),
  KEY `idx_status_next_try` (`status`,`next_try_at`)
) ENGINE=InnoDB AUTO_INCREMENT=2 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO `payments` VALUES
(1,3373502137664528071,'sandbox','pay_QBHE47WMXJWDOR7T3ITGQ4GJMP',100,2,'2026-11-22 21:51:14.813','2026-11-22 21:51:15.115','CNY',0,NULL);
CREATE TABLE `revocations` (
  `seq` bigint(20) NOT NULL AUTO_INCREMENT,
  `session_id` varchar(32) NOT NULL,
  `keep_until` datetime(3) NOT NULL,
  PRIMARY KEY (`seq`),
  KEY `idx_keep_until` (`keep_until`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
CREATE TABLE `room_log` (
  `voucher_id` bigint(20) NOT NULL,
  `seq` int(10) unsigned NOT NULL,
  `kind` tinyint(4) NOT NULL,
  `at` datetime(3) NOT NULL,
  `expires_at` datetime(3) DEFAULT NULL,
  `present` int(10) unsigned NOT NULL DEFAULT 0,
  `data` mediumblob NOT NULL,
  PRIMARY KEY (`voucher_id`,`seq`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
CREATE TABLE `room_places` (
  `voucher_id` bigint(20) NOT NULL,
  `user_id` bigint(20) NOT NULL,
  `number` int(10) unsigned NOT NULL,
  `joined_at` datetime(3) NOT NULL,
  PRIMARY KEY (`voucher_id`,`user_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
CREATE TABLE `rooms` (
  `voucher_id` bigint(20) NOT NULL,
  `joined` int(10) unsigned NOT NULL DEFAULT 0,
  `size` int(10) unsigned NOT NULL DEFAULT 0,
  `seed` binary(32) DEFAULT NULL,
  `started_at` datetime(3) DEFAULT NULL,
  PRIMARY KEY (`voucher_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
CREATE TABLE `seckill_vouchers` (
  `voucher_id` bigint(20) NOT NULL,
  `initial_stock` bigint(20) NOT NULL,
  `stock` bigint(20) NOT NULL,
  `begin_at` datetime(3) NOT NULL,
  `end_at` datetime(3) NOT NULL,
  `limit_per_user` tinyint(4) NOT NULL DEFAULT 1,
  `created_at` datetime(3) NOT NULL,
  `updated_at` datetime(3) NOT NULL,
  `entry_mode` tinyint(4) NOT NULL DEFAULT 0,
  `pass_ttl` int(11) NOT NULL DEFAULT 10,
  `entry_epoch` int(10) unsigned NOT NULL DEFAULT 0,
  `pay_timeout` int(11) DEFAULT NULL,
  `unpaid_limit` tinyint(4) DEFAULT NULL,
  `entry_challenge` tinyint(4) NOT NULL DEFAULT 0,
  `entry_opens_at` datetime(3) DEFAULT NULL,
  `entry_rate` int(11) NOT NULL DEFAULT 100,
  `entry_paused` tinyint(4) NOT NULL DEFAULT 0,
  `entry_message` varchar(255) NOT NULL DEFAULT '',
  PRIMARY KEY (`voucher_id`),
  CONSTRAINT `ck_stock` CHECK (`stock` >= 0)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO `seckill_vouchers` VALUES
(2,100,100,'2026-11-22 20:51:14.713','2026-12-22 21:51:14.713',1,'2026-11-22 21:51:14.713','2026-11-22 21:51:14.713',0,0,0,NULL,NULL,0,NULL,0,0,''),
(3,50,50,'2026-11-22 22:51:14.713','2026-12-22 21:51:14.713',1,'2026-11-22 21:51:14.713','2026-11-22 21:51:14.713',0,0,0,NULL,NULL,0,NULL,0,0,''),
(4,20,20,'2026-11-20 21:51:14.713','2026-11-21 21:51:14.713',1,'2026-11-22 21:51:14.713','2026-11-22 21:51:14.713',0,0,0,NULL,NULL,0,NULL,0,0,''),
(5,1000,998,'2026-11-22 21:50:14.743','2099-01-01 00:00:00.000',1,'2026-11-22 21:51:14.744','2026-11-22 21:51:14.815',0,10,0,NULL,NULL,0,NULL,100,0,'');
CREATE TABLE `second_factors` (
  `user_id` bigint(20) NOT NULL,
  `secret` varbinary(128) NOT NULL,
  `last_step` bigint(20) NOT NULL,
  `enrolled_at` datetime(3) NOT NULL,
  PRIMARY KEY (`user_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
CREATE TABLE `sessions` (
  `id` varchar(32) NOT NULL,
  `user_id` bigint(20) NOT NULL,
  `generation` bigint(20) NOT NULL,
  `created_at` datetime(3) NOT NULL,
  `expires_at` datetime(3) NOT NULL,
  `revoked_at` datetime(3) DEFAULT NULL,
  `device_hash` varchar(64) DEFAULT NULL,
  `rotated_at` datetime(3) DEFAULT NULL,
  `second_factor` tinyint(4) NOT NULL DEFAULT 0,
  PRIMARY KEY (`id`),
  KEY `idx_user` (`user_id`),
  KEY `idx_expires` (`expires_at`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO `sessions` VALUES
('2e8e5a8bcc16a1983ddc1cbfb7c371f5',3,1,'2026-11-22 21:51:14.803','2026-11-23 21:51:14.803',NULL,'',NULL,0),
('7ea3c5f584ba1022fd3a913b253b60d7',2,1,'2026-11-22 21:51:14.803','2026-11-23 21:51:14.803',NULL,'',NULL,0),
('b3e2d967c8f43682828c2602414b7101',1,1,'2026-11-22 21:51:14.738','2026-12-22 21:51:14.738',NULL,'',NULL,0),
('d0da359466b6d669afab6f203c2265d8',5,1,'2026-11-22 21:51:14.803','2026-11-23 21:51:14.803',NULL,'',NULL,0),
('e7a47709c8e862b3776bd9bcab4fa2b5',4,1,'2026-11-22 21:51:14.803','2026-11-23 21:51:14.803',NULL,'',NULL,0);
CREATE TABLE `shops` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `name` varchar(128) NOT NULL,
  `type_id` bigint(20) NOT NULL,
  `images` varchar(1024) NOT NULL DEFAULT '',
  `area` varchar(128) NOT NULL DEFAULT '',
  `address` varchar(255) NOT NULL DEFAULT '',
  `x` double NOT NULL DEFAULT 0,
  `y` double NOT NULL DEFAULT 0,
  `avg_price` bigint(20) NOT NULL DEFAULT 0,
  `sold` int(11) NOT NULL DEFAULT 0,
  `comments` int(11) NOT NULL DEFAULT 0,
  `score` int(11) NOT NULL DEFAULT 0,
  `open_hours` varchar(32) NOT NULL DEFAULT '',
  `created_at` datetime(3) NOT NULL,
  `updated_at` datetime(3) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `idx_type` (`type_id`)
) ENGINE=InnoDB AUTO_INCREMENT=3 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO `shops` VALUES
(1,'桂花茶餐厅',1,'','大关','金华路 29 号',120.149192,30.316078,8000,4215,3035,47,'10:00-22:00','2026-11-22 21:51:14.713','2026-11-22 21:51:14.713'),
(2,'Riverside Hot Pot',1,'','拱宸桥','Lishui Road 66',120.151505,30.333422,6500,2160,1460,46,'11:30-23:00','2026-11-22 21:51:14.713','2026-11-22 21:51:14.713');
CREATE TABLE `stock_changes` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `voucher_id` bigint(20) NOT NULL,
  `delta` bigint(20) NOT NULL,
  `reason` varchar(255) NOT NULL,
  `actor_id` bigint(20) NOT NULL,
  `created_at` datetime(3) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `idx_voucher` (`voucher_id`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
CREATE TABLE `users` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `phone` varchar(20) NOT NULL,
  `nick_name` varchar(64) NOT NULL,
  `icon` varchar(255) NOT NULL DEFAULT '',
  `role` varchar(16) NOT NULL DEFAULT 'buyer',
  `created_at` datetime(3) NOT NULL,
  `updated_at` datetime(3) NOT NULL,
  `deleted_at` datetime(3) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uk_phone` (`phone`)
) ENGINE=InnoDB AUTO_INCREMENT=6 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO `users` VALUES
(1,'13800000000','user_oudn6ipgpu','','buyer','2026-11-22 21:51:14.738','2026-11-22 21:51:14.738',NULL),
(2,'10000000000','buyer_0','','buyer','2026-11-22 21:51:14.803','2026-11-22 21:51:14.803',NULL),
(3,'10000000001','buyer_1','','buyer','2026-11-22 21:51:14.803','2026-11-22 21:51:14.803',NULL),
(4,'10000000002','buyer_2','','buyer','2026-11-22 21:51:14.803','2026-11-22 21:51:14.803',NULL),
(5,'10000000003','buyer_3','','buyer','2026-11-22 21:51:14.803','2026-11-22 21:51:14.803',NULL);
CREATE TABLE `voucher_orders` (
  `id` bigint(20) NOT NULL,
  `user_id` bigint(20) NOT NULL,
  `voucher_id` bigint(20) NOT NULL,
  `slot` tinyint(4) DEFAULT NULL,
  `status` tinyint(4) NOT NULL,
  `pay_type` tinyint(4) DEFAULT NULL,
  `amount` bigint(20) NOT NULL,
  `created_at` datetime(3) NOT NULL,
  `expires_at` datetime(3) NOT NULL,
  `paid_at` datetime(3) DEFAULT NULL,
  `redeemed_at` datetime(3) DEFAULT NULL,
  `cancelled_at` datetime(3) DEFAULT NULL,
  `refunded_at` datetime(3) DEFAULT NULL,
  `updated_at` datetime(3) NOT NULL,
  `currency` char(3) NOT NULL DEFAULT 'CNY',
  `idem_key` binary(16) DEFAULT NULL,
  `idem_request` binary(16) DEFAULT NULL,
  PRIMARY KEY (`id`),
  UNIQUE KEY `uk_user_voucher_slot` (`user_id`,`voucher_id`,`slot`),
  KEY `idx_status_expires` (`status`,`expires_at`),
  KEY `idx_voucher_status` (`voucher_id`,`status`),
  KEY `idx_user_idem_key` (`user_id`,`idem_key`)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO `voucher_orders` VALUES
(3373502137664528071,2,5,1,2,NULL,100,'2026-11-22 21:51:14.808','2026-11-22 22:06:14.808','2026-11-22 21:51:15.115',NULL,NULL,NULL,'2026-11-22 21:51:15.115','CNY',0xA7665D54E71523252400F7713A116C7B,0x0D52F8E8591C9530B747BA2371B6A59C),
(3373502137664528072,3,5,NULL,4,NULL,100,'2026-11-22 21:51:14.810','2026-11-22 22:06:14.810',NULL,NULL,'2026-11-22 21:51:14.815',NULL,'2026-11-22 21:51:14.815','CNY',0xDDA26B22F1D382FB5F9642CCA3462D1B,0x0D52F8E8591C9530B747BA2371B6A59C),
(3373502137664528073,4,5,1,1,NULL,100,'2026-11-22 21:51:14.812','2099-01-01 00:00:00.000',NULL,NULL,NULL,NULL,'2026-11-22 21:51:14.812','CNY',0x3549844D806B355E9E818A36E35729DE,0x0D52F8E8591C9530B747BA2371B6A59C);
CREATE TABLE `vouchers` (
  `id` bigint(20) NOT NULL AUTO_INCREMENT,
  `shop_id` bigint(20) NOT NULL,
  `title` varchar(255) NOT NULL,
  `sub_title` varchar(255) NOT NULL DEFAULT '',
  `rules` varchar(1024) NOT NULL DEFAULT '',
  `pay_value` bigint(20) NOT NULL,
  `actual_value` bigint(20) NOT NULL,
  `type` tinyint(4) NOT NULL,
  `status` tinyint(4) NOT NULL,
  `created_at` datetime(3) NOT NULL,
  `updated_at` datetime(3) NOT NULL,
  `currency` char(3) NOT NULL DEFAULT 'CNY',
  PRIMARY KEY (`id`),
  KEY `idx_shop` (`shop_id`,`id`)
) ENGINE=InnoDB AUTO_INCREMENT=6 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;
INSERT INTO `vouchers` VALUES
(1,1,'50 元代金券','周一至周五可用','全场通用，不找零。',4750,5000,0,1,'2026-11-22 21:51:14.713','2026-11-22 21:51:14.713','CNY'),
(2,1,'100 元秒杀券','桂花茶餐厅','每人限购一张，营业时间内使用。',8000,10000,1,1,'2026-11-22 21:51:14.713','2026-11-22 21:51:14.713','CNY'),
(3,2,'Dinner for two','Riverside Hot Pot','One per person. Redeem within the opening hours.',9900,19800,1,1,'2026-11-22 21:51:14.713','2026-11-22 21:51:14.713','CNY'),
(4,2,'Lunch for two','Riverside Hot Pot','One per person. Redeem within the opening hours.',4900,9800,1,1,'2026-11-22 21:51:14.713','2026-11-22 21:51:14.713','CNY'),
(5,1,'Rush of 2026-11-22 21:51:14','','',100,200,1,1,'2026-11-22 21:51:14.744','2026-11-22 21:51:14.744','CNY');
