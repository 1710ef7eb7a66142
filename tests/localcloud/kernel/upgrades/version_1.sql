PRAGMA user_version=1;
BEGIN TRANSACTION;
CREATE TABLE accounts (
	organization_id VARCHAR NOT NULL,
	balance_cents BIGINT NOT NULL,
	read_at BIGINT NOT NULL,
	month_start BIGINT NOT NULL,
	month_units BIGINT NOT NULL,
	earlier_units BIGINT NOT NULL,
	burn BIGINT NOT NULL,
	funded_at BIGINT,
	recharge_enabled BOOLEAN NOT NULL,
	recharge_threshold_cents BIGINT NOT NULL,
	recharge_amount_cents BIGINT NOT NULL,
	PRIMARY KEY (organization_id)
);
INSERT INTO "accounts" VALUES('org_1c0a7a0f5b6ca5e75ccd',100000,1797728400,1796083200,2572570,0,676,1795277954870784,1,50000,20000);
CREATE TABLE api_keys (
	id VARCHAR NOT NULL,
	organization_id VARCHAR NOT NULL,
	name VARCHAR NOT NULL,
	key_prefix VARCHAR NOT NULL,
	digest VARCHAR NOT NULL,
	scopes TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	expires_at BIGINT,
	last_used_at BIGINT,
	revoked_at BIGINT,
	PRIMARY KEY (id),
	FOREIGN KEY(organization_id) REFERENCES organizations (id),
	UNIQUE (digest)
);
INSERT INTO "api_keys" VALUES('key_1603bbdc4e0264dc9aff','org_1c0a7a0f5b6ca5e75ccd','default','or_9c2fe219','260fc62c13fc8d8d550a23fe34e99c1cc666b28e88580fca4b1a25faf8c6a9b2','["clusters:read", "clusters:write", "vms:read", "vms:write", "inference", "billing:read", "org:write"]',1795277954870784,NULL,1797732000000000,NULL);
CREATE TABLE attached_ssh_keys (
	workload_id VARCHAR NOT NULL,
	ssh_key_id VARCHAR NOT NULL,
	attached_at BIGINT NOT NULL,
	PRIMARY KEY (workload_id, ssh_key_id),
	FOREIGN KEY(ssh_key_id) REFERENCES ssh_keys (id)
);
CREATE TABLE claims (
	node_id VARCHAR NOT NULL,
	unit INTEGER NOT NULL,
	holder_id VARCHAR NOT NULL,
	workload_id VARCHAR NOT NULL,
	PRIMARY KEY (node_id, unit),
	FOREIGN KEY(node_id) REFERENCES nodes (id)
)
 WITHOUT ROWID
;
INSERT INTO "claims" VALUES('node_d6e16d11772f06c6ab9d',0,'rep_f5d51d5d35a0e17e80f1','cluster_1b2c9ba57f77582e91ce');
INSERT INTO "claims" VALUES('node_d6e16d11772f06c6ab9d',1,'rep_37fdb24b38030d66a230','cluster_1b2c9ba57f77582e91ce');
INSERT INTO "claims" VALUES('node_f6d5809dac1840077311',0,'pod_e411b3a19a6f3bcdc95c','pod_e411b3a19a6f3bcdc95c');
INSERT INTO "claims" VALUES('node_f6d5809dac1840077311',1,'pod_e411b3a19a6f3bcdc95c','pod_e411b3a19a6f3bcdc95c');
CREATE TABLE clusters (
	sequence INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	organization_id VARCHAR NOT NULL,
	name VARCHAR NOT NULL,
	status VARCHAR NOT NULL,
	status_reason TEXT,
	replica_count INTEGER NOT NULL,
	active_replicas INTEGER NOT NULL,
	hopeless_since BIGINT,
	gpu_model_id VARCHAR,
	gpus_per_replica INTEGER NOT NULL,
	replica_price_cents BIGINT NOT NULL,
	resource_size VARCHAR NOT NULL,
	tier VARCHAR NOT NULL,
	label VARCHAR NOT NULL,
	deploy_token VARCHAR NOT NULL,
	request TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	updated_at BIGINT NOT NULL,
	terminated_at BIGINT,
	PRIMARY KEY (sequence),
	UNIQUE (id),
	UNIQUE (label)
);
INSERT INTO "clusters" VALUES(1,'cluster_1b2c9ba57f77582e91ce','org_1c0a7a0f5b6ca5e75ccd','cluster','running',NULL,2,2,NULL,'l40s',1,89,'gpu-1x','standard','cluster-1b2c9ba57f77582e91ce','dt_e7cfbb0d11353c32b5353a15c607425f92e4a1e4a6bbb10a','{"name":"cluster","replicaCount":2,"gpuModelId":"l40s"}',1797724800000000,1797724802000000,NULL);
CREATE TABLE due (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	due_at BIGINT NOT NULL,
	kind VARCHAR NOT NULL,
	subject VARCHAR NOT NULL,
	lane VARCHAR,
	payload TEXT NOT NULL,
	UNIQUE (kind, subject)
);
INSERT INTO "due" VALUES(9,1798257145000000,'billing.auto_stop','org_1c0a7a0f5b6ca5e75ccd',NULL,'{}');
CREATE TABLE faults (
	sequence INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	operation VARCHAR NOT NULL,
	organization_id VARCHAR,
	skip INTEGER NOT NULL,
	count INTEGER,
	probability VARCHAR,
	seed BIGINT,
	effect TEXT NOT NULL,
	seen INTEGER NOT NULL,
	applied INTEGER NOT NULL,
	PRIMARY KEY (sequence),
	UNIQUE (id)
);
CREATE TABLE members (
	organization_id VARCHAR NOT NULL,
	user_id VARCHAR NOT NULL,
	role VARCHAR NOT NULL,
	joined_at BIGINT NOT NULL,
	PRIMARY KEY (organization_id, user_id),
	FOREIGN KEY(organization_id) REFERENCES organizations (id),
	FOREIGN KEY(user_id) REFERENCES users (id)
);
INSERT INTO "members" VALUES('org_1c0a7a0f5b6ca5e75ccd','usr_f8ada401b0e495e72472','owner',1795277954870784);
CREATE TABLE meta (
	name VARCHAR NOT NULL,
	value TEXT NOT NULL,
	PRIMARY KEY (name)
);
INSERT INTO "meta" VALUES('seed','{"organization_id": "org_1c0a7a0f5b6ca5e75ccd", "api_key": "or_9c2fe21996c9803bea8b2878868b3e5eef1a73842eb791d4", "user_session_token": "ust_9e9e14ebdd2597740d10e60e4a87291d14ca0add32ac58c0", "user_id": "usr_f8ada401b0e495e72472"}');
INSERT INTO "meta" VALUES('clock','{"mode":"frozen","rate":0.0,"cloud":1797732000000000,"wall":1795277956473647}');
CREATE TABLE nodes (
	sequence INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	gpu_model_id VARCHAR NOT NULL,
	gpu_count INTEGER NOT NULL,
	free_count INTEGER NOT NULL,
	ram_gb INTEGER NOT NULL,
	location VARCHAR NOT NULL,
	region VARCHAR NOT NULL,
	organization_id VARCHAR NOT NULL,
	reporting BOOLEAN NOT NULL,
	schedulable BOOLEAN NOT NULL,
	infiniband_agent BOOLEAN NOT NULL,
	created_at BIGINT NOT NULL,
	removed_at BIGINT,
	PRIMARY KEY (sequence),
	UNIQUE (id)
);
INSERT INTO "nodes" VALUES(1,'node_f6d5809dac1840077311','h100',8,6,2048,'ams1','eu-west','',1,1,1,1795277954870784,NULL);
INSERT INTO "nodes" VALUES(2,'node_cafa83b21dec0dd36650','h100',8,8,2048,'iad1','us-east','',1,1,1,1795277954870784,NULL);
INSERT INTO "nodes" VALUES(3,'node_8ca6b4d4a179f117df76','a100',8,8,1024,'ams1','eu-west','',1,1,1,1795277954870784,NULL);
INSERT INTO "nodes" VALUES(4,'node_2edfc9052b216cd21ff6','a100',8,8,1024,'iad1','us-east','',1,1,1,1795277954870784,NULL);
INSERT INTO "nodes" VALUES(5,'node_d6e16d11772f06c6ab9d','l40s',8,6,768,'ams1','eu-west','',1,1,1,1795277954870784,NULL);
INSERT INTO "nodes" VALUES(6,'node_c191981992965eb53798','l40s',8,8,768,'iad1','us-east','',1,1,1,1795277954870784,NULL);
INSERT INTO "nodes" VALUES(7,'node_7e1c66540cc415c83ef3','rtx4090',8,8,512,'ams1','eu-west','',1,1,1,1795277954870784,NULL);
INSERT INTO "nodes" VALUES(8,'node_f63f7f5e671167426c7f','rtx4090',8,8,512,'iad1','us-east','',1,1,1,1795277954870784,NULL);
CREATE TABLE organizations (
	id VARCHAR NOT NULL,
	name VARCHAR NOT NULL,
	slug VARCHAR,
	billing_email VARCHAR,
	created_at BIGINT NOT NULL,
	suspended VARCHAR,
	infiniband BOOLEAN NOT NULL,
	provider BOOLEAN NOT NULL,
	batch_access BOOLEAN NOT NULL,
	deposit_cap_cents BIGINT NOT NULL,
	auto_stop_floor_cents BIGINT NOT NULL,
	monthly_spend_limit_cents BIGINT,
	PRIMARY KEY (id)
);
INSERT INTO "organizations" VALUES('org_1c0a7a0f5b6ca5e75ccd','Local',NULL,NULL,1795277954870784,NULL,0,0,1,50000,0,NULL);
CREATE TABLE outbox (
	sequence INTEGER NOT NULL,
	at BIGINT NOT NULL,
	organization_id VARCHAR NOT NULL,
	recipient VARCHAR NOT NULL,
	subject TEXT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (sequence)
);
CREATE TABLE replicas (
	sequence INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	cluster_id VARCHAR NOT NULL,
	node_id VARCHAR,
	status VARCHAR NOT NULL,
	replacement_due BOOLEAN NOT NULL,
	consecutive_failures INTEGER NOT NULL,
	checked_at BIGINT,
	created_at BIGINT NOT NULL,
	started_at BIGINT,
	terminated_at BIGINT,
	PRIMARY KEY (sequence),
	UNIQUE (id)
);
INSERT INTO "replicas" VALUES(1,'rep_f5d51d5d35a0e17e80f1','cluster_1b2c9ba57f77582e91ce','node_d6e16d11772f06c6ab9d','healthy',0,0,1797724802000000,1797724800000000,1797724802000000,NULL);
INSERT INTO "replicas" VALUES(2,'rep_37fdb24b38030d66a230','cluster_1b2c9ba57f77582e91ce','node_d6e16d11772f06c6ab9d','healthy',0,0,1797724802000000,1797724800000000,1797724802000000,NULL);
CREATE TABLE sessions (
	digest VARCHAR NOT NULL,
	user_id VARCHAR NOT NULL,
	organization_id VARCHAR NOT NULL,
	created_at BIGINT NOT NULL,
	expires_at BIGINT NOT NULL,
	PRIMARY KEY (digest),
	FOREIGN KEY(user_id) REFERENCES users (id)
);
INSERT INTO "sessions" VALUES('d5f58ba5872e7e2f3db95f6c4d5204bce7c3c1c74950afb838846f871b2736d3','usr_f8ada401b0e495e72472','org_1c0a7a0f5b6ca5e75ccd',1795277954870784,1795364354870784);
CREATE TABLE ssh_keys (
	id VARCHAR NOT NULL,
	organization_id VARCHAR NOT NULL,
	name VARCHAR NOT NULL,
	public_key TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (organization_id, name),
	FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE TABLE transactions (
	sequence INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	organization_id VARCHAR NOT NULL,
	type VARCHAR NOT NULL,
	amount_cents BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	description TEXT NOT NULL,
	PRIMARY KEY (sequence),
	UNIQUE (id)
);
INSERT INTO "transactions" VALUES(1,'txn_6699fc74a1ba9cb64a94','org_1c0a7a0f5b6ca5e75ccd','credit',100000,1795277954870784,'Balance set through the control interface');
CREATE TABLE usage_records (
	sequence INTEGER NOT NULL,
	organization_id VARCHAR NOT NULL,
	holder_id VARCHAR NOT NULL,
	resource_id VARCHAR NOT NULL,
	kind VARCHAR NOT NULL,
	name VARCHAR NOT NULL,
	gpu_model_id VARCHAR,
	rate_cents BIGINT NOT NULL,
	started_at BIGINT NOT NULL,
	ended_at BIGINT,
	PRIMARY KEY (sequence)
);
INSERT INTO "usage_records" VALUES(1,'org_1c0a7a0f5b6ca5e75ccd','pod_e411b3a19a6f3bcdc95c','pod_e411b3a19a6f3bcdc95c','pod','running','h100',498,1797724802,NULL);
INSERT INTO "usage_records" VALUES(2,'org_1c0a7a0f5b6ca5e75ccd','pod_d3898a98fba37b063aeb','pod_d3898a98fba37b063aeb','pod','stopped','rtx4090',39,1797724802,1797728400);
INSERT INTO "usage_records" VALUES(3,'org_1c0a7a0f5b6ca5e75ccd','rep_f5d51d5d35a0e17e80f1','cluster_1b2c9ba57f77582e91ce','cluster','cluster','l40s',89,1797724802,NULL);
INSERT INTO "usage_records" VALUES(4,'org_1c0a7a0f5b6ca5e75ccd','rep_37fdb24b38030d66a230','cluster_1b2c9ba57f77582e91ce','cluster','cluster','l40s',89,1797724802,NULL);
CREATE TABLE users (
	id VARCHAR NOT NULL,
	email VARCHAR NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (id),
	UNIQUE (email)
);
INSERT INTO "users" VALUES('usr_f8ada401b0e495e72472','usr_f8ada401b0e495e72472@example.test',1795277954870784);
CREATE TABLE waiting_clusters (
	sequence INTEGER NOT NULL,
	cluster_id VARCHAR NOT NULL,
	gpu_model_id VARCHAR NOT NULL,
	PRIMARY KEY (sequence),
	UNIQUE (cluster_id)
);
CREATE TABLE webhook_attempts (
	sequence INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	delivery_id VARCHAR NOT NULL,
	webhook_id VARCHAR NOT NULL,
	organization_id VARCHAR NOT NULL,
	event_type VARCHAR NOT NULL,
	attempt INTEGER NOT NULL,
	status_code INTEGER,
	error TEXT,
	fault_id VARCHAR,
	requested_at BIGINT NOT NULL,
	duration_ms INTEGER NOT NULL,
	PRIMARY KEY (sequence),
	UNIQUE (id)
);
INSERT INTO "webhook_attempts" VALUES(1,'wha_7290ae6877d8aa46c026','whd_1479d1d2f7df11515291','wh_08aaeaec6e40cd933db4','org_1c0a7a0f5b6ca5e75ccd','vm.stopped',1,NULL,'ClientConnectorError: Cannot connect to host 127.0.0.1:9 ssl:default [Connect call failed (''127.0.0.1'', 9)]',NULL,1797728401000000,4);
INSERT INTO "webhook_attempts" VALUES(2,'wha_033b90ee65f4c86b70b6','whd_1479d1d2f7df11515291','wh_08aaeaec6e40cd933db4','org_1c0a7a0f5b6ca5e75ccd','vm.stopped',2,NULL,'ClientConnectorError: Cannot connect to host 127.0.0.1:9 ssl:default [Connect call failed (''127.0.0.1'', 9)]',NULL,1797728411000000,2);
INSERT INTO "webhook_attempts" VALUES(3,'wha_b15eb834b5b33366501c','whd_1479d1d2f7df11515291','wh_08aaeaec6e40cd933db4','org_1c0a7a0f5b6ca5e75ccd','vm.stopped',3,NULL,'ClientConnectorError: Cannot connect to host 127.0.0.1:9 ssl:default [Connect call failed (''127.0.0.1'', 9)]',NULL,1797728471000000,3);
INSERT INTO "webhook_attempts" VALUES(4,'wha_e11d8e86d05e3c4451b8','whd_1479d1d2f7df11515291','wh_08aaeaec6e40cd933db4','org_1c0a7a0f5b6ca5e75ccd','vm.stopped',4,NULL,'ClientConnectorError: Cannot connect to host 127.0.0.1:9 ssl:default [Connect call failed (''127.0.0.1'', 9)]',NULL,1797728771000000,2);
CREATE TABLE webhook_deliveries (
	id VARCHAR NOT NULL,
	webhook_id VARCHAR NOT NULL,
	event_id VARCHAR NOT NULL,
	event_type VARCHAR NOT NULL,
	body TEXT NOT NULL,
	held BOOLEAN NOT NULL,
	PRIMARY KEY (id)
);
INSERT INTO "webhook_deliveries" VALUES('whd_1479d1d2f7df11515291','wh_08aaeaec6e40cd933db4','evt_9fe7e9ad22f8183e47f8','vm.stopped','{"id":"evt_9fe7e9ad22f8183e47f8","type":"vm.stopped","created_at":"2026-12-20T01:00:01.000000Z","data":{"vmId":"pod_d3898a98fba37b063aeb","organizationId":"org_1c0a7a0f5b6ca5e75ccd","name":"stopped","podId":"pod_d3898a98fba37b063aeb","status":"stopped","statusReason":null}}',0);
CREATE TABLE webhooks (
	id VARCHAR NOT NULL,
	organization_id VARCHAR NOT NULL,
	name VARCHAR NOT NULL,
	url TEXT NOT NULL,
	events TEXT NOT NULL,
	secret_prefix VARCHAR NOT NULL,
	signing_key VARCHAR NOT NULL,
	enabled BOOLEAN NOT NULL,
	created_at BIGINT NOT NULL,
	PRIMARY KEY (id),
	FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
INSERT INTO "webhooks" VALUES('wh_08aaeaec6e40cd933db4','org_1c0a7a0f5b6ca5e75ccd','hook','http://127.0.0.1:9/','[]','whsec_7c36d5','daa4dc06029e711e6b0a5a3b75e1d0c5ede30d3c2a6c1fac23313a187f447c78',1,1797728400000000);
CREATE TABLE workloads (
	sequence INTEGER NOT NULL,
	id VARCHAR NOT NULL,
	kind VARCHAR NOT NULL,
	organization_id VARCHAR NOT NULL,
	name VARCHAR NOT NULL,
	status VARCHAR NOT NULL,
	status_reason TEXT,
	out_of_funds_at BIGINT,
	changed_at BIGINT NOT NULL,
	placed_at BIGINT,
	due_at BIGINT,
	created_at BIGINT NOT NULL,
	terminated_at BIGINT,
	node_id VARCHAR,
	gpu_model_id VARCHAR,
	gpu_count INTEGER NOT NULL,
	price_per_hour_cents BIGINT NOT NULL,
	image VARCHAR,
	public BOOLEAN NOT NULL,
	label VARCHAR NOT NULL,
	http_port INTEGER NOT NULL,
	volume_gb INTEGER,
	disk_size_gb INTEGER,
	resource_size VARCHAR,
	tier VARCHAR NOT NULL,
	capability_tier VARCHAR NOT NULL,
	compute_class VARCHAR NOT NULL,
	request TEXT NOT NULL,
	PRIMARY KEY (sequence),
	UNIQUE (id),
	UNIQUE (label)
);
INSERT INTO "workloads" VALUES(1,'pod_e411b3a19a6f3bcdc95c','pod','org_1c0a7a0f5b6ca5e75ccd','running','running',NULL,NULL,1797724802000000,NULL,NULL,1797724800000000,NULL,'node_f6d5809dac1840077311','h100',2,498,'nginx',0,'pod-e411b3a19a6f3bcdc95c',80,50,50,'gpu-2x','standard','standard','on_demand','{"image":"nginx","name":"running","gpuModelId":"h100","gpuCount":2,"computeClass":"on_demand","httpPort":80,"public":false,"volumeGb":50}');
INSERT INTO "workloads" VALUES(2,'pod_d3898a98fba37b063aeb','pod','org_1c0a7a0f5b6ca5e75ccd','stopped','stopped',NULL,NULL,1797728401000000,NULL,NULL,1797724800000000,NULL,'node_7e1c66540cc415c83ef3','rtx4090',1,39,'nginx',0,'pod-d3898a98fba37b063aeb',80,50,50,'gpu-1x','standard','standard','on_demand','{"image":"nginx","name":"stopped","gpuModelId":"rtx4090","gpuCount":1,"computeClass":"on_demand","httpPort":80,"public":false,"volumeGb":50}');
CREATE INDEX due_calls ON due (lane) WHERE lane IS NOT NULL;
CREATE INDEX due_order ON due (lane, due_at, id);
CREATE INDEX deliveries_held ON webhook_deliveries (webhook_id) WHERE held IS 1;
CREATE INDEX deliveries_of_webhook ON webhook_deliveries (webhook_id);
CREATE INDEX attempts_of_webhook ON webhook_attempts (webhook_id, sequence);
CREATE INDEX faults_by_operation ON faults (operation);
CREATE INDEX transactions_of_organization ON transactions (organization_id, sequence);
CREATE INDEX usage_of_organization ON usage_records (organization_id, ended_at);
CREATE UNIQUE INDEX open_usage_of_holder ON usage_records (holder_id) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX live_cluster_names ON clusters (organization_id, name) WHERE terminated_at IS NULL;
CREATE INDEX live_clusters ON clusters (organization_id, sequence) WHERE terminated_at IS NULL;
CREATE INDEX live_replicas_on_node ON replicas (node_id) WHERE terminated_at IS NULL;
CREATE INDEX live_replicas_of_cluster ON replicas (cluster_id, sequence) WHERE terminated_at IS NULL;
CREATE UNIQUE INDEX live_names ON workloads (organization_id, kind, name) WHERE terminated_at IS NULL;
CREATE INDEX workloads_on_node ON workloads (node_id) WHERE terminated_at IS NULL;
CREATE INDEX running_workloads ON workloads (organization_id) WHERE status = 'running';
CREATE INDEX live_workloads ON workloads (organization_id, sequence) WHERE terminated_at IS NULL;
CREATE INDEX nodes_with_room ON nodes (organization_id, gpu_model_id, schedulable, free_count, sequence);
CREATE INDEX ix_waiting_clusters_gpu_model_id ON waiting_clusters (gpu_model_id);
CREATE INDEX members_of_user ON members (user_id);
CREATE INDEX api_keys_of_organization ON api_keys (organization_id, created_at);
CREATE INDEX webhooks_of_organization ON webhooks (organization_id, created_at);
CREATE INDEX claims_of_holder ON claims (holder_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('due',14);
COMMIT;
