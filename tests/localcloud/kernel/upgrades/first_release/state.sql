PRAGMA user_version=2;
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
INSERT INTO "accounts" VALUES('org_f0ffb4a173e065bb8b9a',102000,1795360911,1793491200,2464664,0,847,1795360911758584,1,1000,1000);
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
INSERT INTO "api_keys" VALUES('key_32c5d34ea5c42c3c182b','org_f0ffb4a173e065bb8b9a','default','or_5715cc56','3d79a62d71c6e83ffabcd20a50d61e09be4e949f7f02faec82c5e13d6ea54825','["clusters:read", "clusters:write", "vms:read", "vms:write", "inference", "billing:read", "org:write"]',1795357249758584,NULL,1795361569758584,NULL);
INSERT INTO "api_keys" VALUES('key_24d6fbef44b278b6a159','org_f0ffb4a173e065bb8b9a','ci','or_b9c88b16','75e9a9a1a4264f7fb9b375dff2e97a93bc0d2ab189aa9447db25724c8171f59b','["vms:read"]',1795357249758584,NULL,NULL,NULL);
CREATE TABLE attached_ssh_keys (
	workload_id VARCHAR NOT NULL, 
	ssh_key_id VARCHAR NOT NULL, 
	attached_at BIGINT NOT NULL, 
	PRIMARY KEY (workload_id, ssh_key_id), 
	FOREIGN KEY(ssh_key_id) REFERENCES ssh_keys (id)
);
INSERT INTO "attached_ssh_keys" VALUES('vm_6187b4b2cd8d54dac552','ssh_438e3479d7912693442d',1795357249758584);
CREATE TABLE batches (
	sequence INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	organization_id VARCHAR NOT NULL, 
	status VARCHAR NOT NULL, 
	endpoint VARCHAR NOT NULL, 
	input_file_id VARCHAR NOT NULL, 
	model VARCHAR, 
	metadata TEXT, 
	problems TEXT, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	ended_at BIGINT, 
	ending VARCHAR, 
	total INTEGER NOT NULL, 
	completed INTEGER NOT NULL, 
	failed INTEGER NOT NULL, 
	input_tokens BIGINT NOT NULL, 
	output_tokens BIGINT NOT NULL, 
	cost_nano_usd BIGINT NOT NULL, 
	records_done INTEGER NOT NULL, 
	records_wanted INTEGER NOT NULL, 
	input_offset BIGINT NOT NULL, 
	output_bytes BIGINT NOT NULL, 
	error_bytes BIGINT NOT NULL, 
	output_file_id VARCHAR NOT NULL, 
	error_file_id VARCHAR NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (id)
);
INSERT INTO "batches" VALUES(1,'batch_34ae00fef327b6dae8b6','org_f0ffb4a173e065bb8b9a','completed','/v1/chat/completions','file_ad355ddcc6f70624b707','echo','{"a": "b"}',NULL,1795360909758584,1795447309758584,1795360912058584,'completed',3,3,0,3,3,300,3,3,396,1359,0,'file_360d541dd7d89c558fdd','file_9d50c510264cbb88bed9');
CREATE TABLE charges (
	sequence INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	organization_id VARCHAR NOT NULL, 
	reason VARCHAR NOT NULL, 
	amount_cents BIGINT NOT NULL, 
	status VARCHAR NOT NULL, 
	idempotency_key VARCHAR, 
	created_at BIGINT NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (id)
);
INSERT INTO "charges" VALUES(1,'ch_78439055f8649c9f3c20','org_f0ffb4a173e065bb8b9a','deposit',2000,'succeeded','k1',1795360909758584);
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
INSERT INTO "claims" VALUES('node_c8b40c92f5dab3fb18e0',0,'pod_4ff31e43f14d6a4ed765','pod_4ff31e43f14d6a4ed765');
INSERT INTO "claims" VALUES('node_c8b40c92f5dab3fb18e0',1,'pod_4ff31e43f14d6a4ed765','pod_4ff31e43f14d6a4ed765');
INSERT INTO "claims" VALUES('node_e57091d462941d7f5c08',0,'vm_6187b4b2cd8d54dac552','vm_6187b4b2cd8d54dac552');
INSERT INTO "claims" VALUES('node_e57091d462941d7f5c08',1,'rep_46333753f349fc950a7d','dep_10d3f77c7f846a975bc1');
INSERT INTO "claims" VALUES('node_e57091d462941d7f5c08',2,'rep_0563d997ab8b8a69dc87','dep_10d3f77c7f846a975bc1');
INSERT INTO "claims" VALUES('node_e57091d462941d7f5c08',3,'pod_d230be3496a7e5d32282','pod_d230be3496a7e5d32282');
INSERT INTO "claims" VALUES('node_fdd1457adf5bf4e396ac',0,'rep_a2e812c610b660aff2ba','cluster_5e445cd31914da1869f4');
INSERT INTO "claims" VALUES('node_fdd1457adf5bf4e396ac',1,'rep_eb2f4c90ba267c9ba027','cluster_5e445cd31914da1869f4');
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
INSERT INTO "clusters" VALUES(1,'cluster_5e445cd31914da1869f4','org_f0ffb4a173e065bb8b9a','llm','running',NULL,2,2,NULL,'rtx4090',1,39,'gpu-1x','standard','cluster-5e445cd31914da1869f4','dt_95b4bded5dc1723caee0f423a49b86979d3c60bf2f0efdce','{"name":"llm","replicaCount":2,"gpuModelId":"rtx4090","gpusPerReplica":1,"imageUrl":"v:1","containerPort":8000,"envVars":{"B":"2"}}',1795357249758584,1795357251758584,NULL);
CREATE TABLE due (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	due_at BIGINT NOT NULL, 
	kind VARCHAR NOT NULL, 
	subject VARCHAR NOT NULL, 
	lane VARCHAR, 
	payload TEXT NOT NULL, 
	UNIQUE (kind, subject)
);
INSERT INTO "due" VALUES(8,1796083800000000,'billing.settlement','org_f0ffb4a173e065bb8b9a',NULL,'{}');
INSERT INTO "due" VALUES(34,1795791536000000,'billing.auto_stop','org_f0ffb4a173e065bb8b9a',NULL,'{}');
INSERT INTO "due" VALUES(35,1795787286000000,'billing.auto_recharge','org_f0ffb4a173e065bb8b9a',NULL,'{}');
INSERT INTO "due" VALUES(36,1795361573758584,'workload.timer','pod_d230be3496a7e5d32282',NULL,'{}');
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
CREATE TABLE files (
	sequence INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	organization_id VARCHAR NOT NULL, 
	filename TEXT NOT NULL, 
	purpose VARCHAR NOT NULL, 
	bytes BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	deleted_at BIGINT, 
	PRIMARY KEY (sequence), 
	UNIQUE (id)
);
INSERT INTO "files" VALUES(1,'file_ad355ddcc6f70624b707','org_f0ffb4a173e065bb8b9a','requests.jsonl','batch',396,1795360909758584,NULL);
INSERT INTO "files" VALUES(2,'file_360d541dd7d89c558fdd','org_f0ffb4a173e065bb8b9a','batch_34ae00fef327b6dae8b6_output.jsonl','batch_output',1359,1795360912058584,NULL);
CREATE TABLE gateway_upstreams (
	image VARCHAR NOT NULL, 
	url TEXT NOT NULL, 
	PRIMARY KEY (image)
);
CREATE TABLE inference_backends (
	sequence INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	organization_id VARCHAR NOT NULL, 
	model_id VARCHAR NOT NULL, 
	provider VARCHAR NOT NULL, 
	ref TEXT NOT NULL, 
	endpoint TEXT NOT NULL, 
	native_families TEXT NOT NULL, 
	auth VARCHAR NOT NULL, 
	api_key TEXT, 
	transport VARCHAR NOT NULL, 
	weight BIGINT NOT NULL, 
	max_concurrency BIGINT NOT NULL, 
	created_at BIGINT NOT NULL, 
	sealed_key TEXT, 
	PRIMARY KEY (sequence), 
	UNIQUE (id)
);
INSERT INTO "inference_backends" VALUES(1,'bke_838b32068ffeb27a7b4e','org_f0ffb4a173e065bb8b9a','echo','openai_compatible','other','http://127.0.0.1:9/v1','["chat_completions"]','none',NULL,'direct',0,0,1795360909758584,NULL);
CREATE TABLE inference_charges (
	organization_id VARCHAR NOT NULL, 
	charged_nano_usd BIGINT NOT NULL, 
	PRIMARY KEY (organization_id)
);
INSERT INTO "inference_charges" VALUES('org_f0ffb4a173e065bb8b9a',500);
CREATE TABLE inference_usage (
	organization_id VARCHAR NOT NULL, 
	day BIGINT NOT NULL, 
	requests BIGINT NOT NULL, 
	input_tokens BIGINT NOT NULL, 
	output_tokens BIGINT NOT NULL, 
	cost_nano_usd BIGINT NOT NULL, 
	PRIMARY KEY (organization_id, day)
);
INSERT INTO "inference_usage" VALUES('org_f0ffb4a173e065bb8b9a',1795305600000000,4,4,4,500);
CREATE TABLE invites (
	digest VARCHAR NOT NULL, 
	organization_id VARCHAR NOT NULL, 
	email VARCHAR NOT NULL, 
	role VARCHAR NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	accepted_at BIGINT, 
	PRIMARY KEY (digest), 
	FOREIGN KEY(organization_id) REFERENCES organizations (id)
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
INSERT INTO "members" VALUES('org_f0ffb4a173e065bb8b9a','usr_29a0fe29a69dc88335b6','owner',1795357249758584);
CREATE TABLE meta (
	name VARCHAR NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "meta" VALUES('seed','{"organization_id": "org_f0ffb4a173e065bb8b9a", "api_key": "or_5715cc56140fd15982d657b435dd2101c8ef3145402b0ae4", "user_session_token": "ust_ecb1c82365a5c3e3f606f382bf9d13eb570b184079473e34", "user_id": "usr_29a0fe29a69dc88335b6"}');
INSERT INTO "meta" VALUES('clock','{"mode":"frozen","rate":0.0,"cloud":1795361569758584,"wall":1795357301497303}');
INSERT INTO "meta" VALUES('settings','{"placementSeconds":1.0,"startSeconds":3.0,"stopSeconds":1.0,"interruptionGraceSeconds":180.0,"webhookTimeoutSeconds":10.0,"batchRecordSeconds":0.1,"rateLimitPerSecond":null,"capacityStatus":503,"maxConcurrentUploads":4,"allowLoopbackExecutors":false,"inferenceFloorCents":null,"cpuSlots":1000,"ipAddresses":50}');
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
	hold VARCHAR, 
	provider_id VARCHAR, 
	node_pool VARCHAR NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (id)
);
INSERT INTO "nodes" VALUES(1,'node_c8b40c92f5dab3fb18e0','h100',8,6,2048,'ams1','eu-west','',1,1,1,1795357249758584,NULL,NULL,NULL,'community');
INSERT INTO "nodes" VALUES(2,'node_920401ddb13ed635a609','h100',8,8,2048,'iad1','us-east','',1,1,1,1795357249758584,NULL,NULL,NULL,'community');
INSERT INTO "nodes" VALUES(3,'node_2a278c9920fcba998497','a100',8,8,1024,'ams1','eu-west','',1,1,1,1795357249758584,NULL,NULL,NULL,'community');
INSERT INTO "nodes" VALUES(4,'node_d3fe1c7b3dd6c0cdb164','a100',8,8,1024,'iad1','us-east','',1,1,1,1795357249758584,NULL,NULL,NULL,'community');
INSERT INTO "nodes" VALUES(5,'node_e57091d462941d7f5c08','l40s',8,4,768,'ams1','eu-west','',1,1,1,1795357249758584,NULL,NULL,NULL,'community');
INSERT INTO "nodes" VALUES(6,'node_fe8a9945f88a59fb4c4f','l40s',8,8,768,'iad1','us-east','',1,1,1,1795357249758584,NULL,NULL,NULL,'community');
INSERT INTO "nodes" VALUES(7,'node_fdd1457adf5bf4e396ac','rtx4090',8,6,512,'ams1','eu-west','',1,1,1,1795357249758584,NULL,NULL,NULL,'community');
INSERT INTO "nodes" VALUES(8,'node_411807e59da11edcd619','rtx4090',8,8,512,'iad1','us-east','',1,1,1,1795357249758584,NULL,NULL,NULL,'community');
INSERT INTO "nodes" VALUES(9,'node_ec1ff414946a244d349c','h100',8,6,2048,'ams1','eu-west','org_f0ffb4a173e065bb8b9a',1,1,1,1795360909758584,NULL,NULL,'org_f0ffb4a173e065bb8b9a','community');
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
INSERT INTO "organizations" VALUES('org_f0ffb4a173e065bb8b9a','Local',NULL,NULL,1795357249758584,NULL,0,1,1,50000,0,NULL);
CREATE TABLE outbox (
	sequence INTEGER NOT NULL, 
	at BIGINT NOT NULL, 
	organization_id VARCHAR NOT NULL, 
	recipient VARCHAR NOT NULL, 
	subject TEXT NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (sequence)
);
INSERT INTO "outbox" VALUES(1,1795360909758584,'org_f0ffb4a173e065bb8b9a','usr_29a0fe29a69dc88335b6@example.test','Local is a provider','POST /v1/orgs/org_f0ffb4a173e065bb8b9a/provider/tokens makes a provisioning token, which enrols nodes.');
CREATE TABLE payment_methods (
	sequence INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	organization_id VARCHAR NOT NULL, 
	brand VARCHAR NOT NULL, 
	last4 VARCHAR NOT NULL, 
	exp_month INTEGER NOT NULL, 
	exp_year INTEGER NOT NULL, 
	requires_action BOOLEAN NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (id)
);
INSERT INTO "payment_methods" VALUES(1,'pm_c28ef2056f9701d1b6f7','org_f0ffb4a173e065bb8b9a','visa','4242',12,2099,0);
CREATE TABLE profiles (
	user_id VARCHAR NOT NULL, 
	full_name VARCHAR, 
	avatar_url TEXT, 
	default_organization_id VARCHAR, 
	PRIMARY KEY (user_id), 
	FOREIGN KEY(user_id) REFERENCES users (id)
);
CREATE TABLE provider_applications (
	organization_id VARCHAR NOT NULL, 
	note TEXT NOT NULL, 
	status VARCHAR NOT NULL, 
	applied_at BIGINT NOT NULL, 
	decided_at BIGINT, 
	PRIMARY KEY (organization_id), 
	FOREIGN KEY(organization_id) REFERENCES organizations (id)
);
CREATE TABLE provisioning_tokens (
	sequence INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	organization_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	digest VARCHAR NOT NULL, 
	node_type VARCHAR, 
	node_pool VARCHAR NOT NULL, 
	max_nodes INTEGER NOT NULL, 
	used_nodes INTEGER NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	revoked_at BIGINT, 
	PRIMARY KEY (sequence), 
	UNIQUE (id), 
	FOREIGN KEY(organization_id) REFERENCES organizations (id), 
	UNIQUE (digest)
);
INSERT INTO "provisioning_tokens" VALUES(1,'ptok_9184f4cc3c89672b14b2','org_f0ffb4a173e065bb8b9a','enrol','fe0bc6347a4b6dc5a1b70b0dcd80d019b72093dbd654afa78c89213a214e9914',NULL,'community',2,1,1795360909758584,1795447309758584,NULL);
CREATE TABLE recharge_attempts (
	organization_id VARCHAR NOT NULL, 
	charge_id VARCHAR, 
	declined INTEGER NOT NULL, 
	not_before BIGINT NOT NULL, 
	PRIMARY KEY (organization_id)
);
CREATE TABLE registry_credentials (
	sequence INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	organization_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	server TEXT NOT NULL, 
	auth_type VARCHAR NOT NULL, 
	sealed TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (id)
);
INSERT INTO "registry_credentials" VALUES(1,'rcr_0fa157346fe587756dd2','org_f0ffb4a173e065bb8b9a','hub','ghcr.io','basic','Mahur9eeQSrYRilOc9f75Zzm+ghpuyHYBBbx2YM2QIwtqU88//Wf6kI+IG8uZJup6lZ+ki0mL6WpqrFWeho=',1795357249758584);
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
INSERT INTO "replicas" VALUES(1,'rep_a2e812c610b660aff2ba','cluster_5e445cd31914da1869f4','node_fdd1457adf5bf4e396ac','healthy',0,0,1795357251758584,1795357249758584,1795357251758584,NULL);
INSERT INTO "replicas" VALUES(2,'rep_eb2f4c90ba267c9ba027','cluster_5e445cd31914da1869f4','node_fdd1457adf5bf4e396ac','healthy',0,0,1795357251758584,1795357249758584,1795357251758584,NULL);
CREATE TABLE reservations (
	sequence INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	node_id VARCHAR NOT NULL, 
	units TEXT NOT NULL, 
	allowed_org_ids TEXT NOT NULL, 
	managing_org_ids TEXT NOT NULL, 
	starts_at BIGINT NOT NULL, 
	ends_at BIGINT, 
	status VARCHAR NOT NULL, 
	contract_ref TEXT, 
	reason TEXT, 
	created_at BIGINT NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (id), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "reservations" VALUES(1,'rsv_90a216ba08ce1d939ff7','node_ec1ff414946a244d349c','[0, 1]','["org_f0ffb4a173e065bb8b9a", "org_platform_ops"]','[]',1795360909758584,NULL,'active','c-1','x',1795360909758584);
CREATE TABLE reserved_units (
	node_id VARCHAR NOT NULL, 
	unit INTEGER NOT NULL, 
	reservation_id VARCHAR NOT NULL, 
	lent BOOLEAN NOT NULL, 
	free BOOLEAN NOT NULL, 
	PRIMARY KEY (node_id, unit), 
	FOREIGN KEY(node_id) REFERENCES nodes (id)
);
INSERT INTO "reserved_units" VALUES('node_ec1ff414946a244d349c',0,'rsv_90a216ba08ce1d939ff7',0,1);
INSERT INTO "reserved_units" VALUES('node_ec1ff414946a244d349c',1,'rsv_90a216ba08ce1d939ff7',0,1);
CREATE TABLE runner_pools (
	sequence INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	organization_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	installation_id BIGINT NOT NULL, 
	vcs_owner VARCHAR, 
	vcs_owner_type VARCHAR, 
	pool_ram_gb INTEGER NOT NULL, 
	disk_size_gb INTEGER NOT NULL, 
	sealed_grant TEXT, 
	created_at BIGINT NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (id)
);
INSERT INTO "runner_pools" VALUES(1,'rnp_c2e54b5de8fb32f88b0d','org_f0ffb4a173e065bb8b9a','ci',42,NULL,NULL,16,50,NULL,1795357249758584);
CREATE TABLE serving_deployments (
	sequence INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	organization_id VARCHAR NOT NULL, 
	catalog_id VARCHAR NOT NULL, 
	public_model_id VARCHAR NOT NULL, 
	node_pool VARCHAR NOT NULL, 
	min_prompt_bytes BIGINT NOT NULL, 
	max_prompt_bytes BIGINT NOT NULL, 
	status VARCHAR NOT NULL, 
	status_reason TEXT, 
	leaving BIGINT, 
	generation INTEGER NOT NULL, 
	price_cents BIGINT NOT NULL, 
	spec TEXT NOT NULL, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	gone_at BIGINT, 
	PRIMARY KEY (sequence), 
	UNIQUE (id)
);
INSERT INTO "serving_deployments" VALUES(1,'dep_10d3f77c7f846a975bc1','org_f0ffb4a173e065bb8b9a','','echo','lane-1',0,0,'running',NULL,NULL,1,89,'{"organizationId":"org_f0ffb4a173e065bb8b9a","publicModelId":"echo","engine":"vllm","servedModelId":"echo","gpuModelId":"l40s","gpuCountPerReplica":1,"replicasMin":1,"replicasMax":3,"replicasDesired":2,"nativeFamilies":["chat_completions"],"maxConcurrencyPerReplica":0,"backendWeight":0,"nodePool":"lane-1","minPromptBytes":0,"maxPromptBytes":0,"isolated":false,"replicaRuntime":"","rolloutRole":"","rolloutStrategy":"blue_green","maxUnavailable":1}',1795360909758584,1795360911758584,NULL);
CREATE TABLE serving_replicas (
	sequence INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	deployment_id VARCHAR NOT NULL, 
	node_id VARCHAR NOT NULL, 
	status VARCHAR NOT NULL, 
	generation INTEGER NOT NULL, 
	engine_image TEXT, 
	replacement_due BOOLEAN NOT NULL, 
	created_at BIGINT NOT NULL, 
	started_at BIGINT, 
	terminated_at BIGINT, 
	PRIMARY KEY (sequence), 
	UNIQUE (id)
);
INSERT INTO "serving_replicas" VALUES(1,'rep_46333753f349fc950a7d','dep_10d3f77c7f846a975bc1','node_e57091d462941d7f5c08','healthy',1,NULL,0,1795360909758584,1795360911758584,NULL);
INSERT INTO "serving_replicas" VALUES(2,'rep_0563d997ab8b8a69dc87','dep_10d3f77c7f846a975bc1','node_e57091d462941d7f5c08','healthy',1,NULL,0,1795360909758584,1795360911758584,NULL);
CREATE TABLE sessions (
	digest VARCHAR NOT NULL, 
	user_id VARCHAR NOT NULL, 
	organization_id VARCHAR NOT NULL, 
	created_at BIGINT NOT NULL, 
	expires_at BIGINT NOT NULL, 
	PRIMARY KEY (digest), 
	FOREIGN KEY(user_id) REFERENCES users (id)
);
INSERT INTO "sessions" VALUES('43597e0faa3e6b30250b3e23ab1c61814551ddc2975e0f52cc2290857852b23d','usr_29a0fe29a69dc88335b6','org_f0ffb4a173e065bb8b9a',1795357249758584,1795443649758584);
CREATE TABLE snapshots (
	sequence INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	vm_id VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	status VARCHAR NOT NULL, 
	status_reason TEXT, 
	size_gb INTEGER NOT NULL, 
	created_at BIGINT NOT NULL, 
	ready_at BIGINT, 
	PRIMARY KEY (sequence), 
	UNIQUE (id)
);
INSERT INTO "snapshots" VALUES(1,'snap_03dd8b6b6e31f9995991','vm_6187b4b2cd8d54dac552','before','ready',NULL,50,1795357309758584,1795357319758584);
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
INSERT INTO "ssh_keys" VALUES('ssh_438e3479d7912693442d','org_f0ffb4a173e065bb8b9a','ada','ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE+fGryyE0DJsVbKoWftrga5FxG/JBt744ikBpgnW6rp ada@example.com',1795357249758584);
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
INSERT INTO "transactions" VALUES(1,'txn_21d5f40f17dde7b6fc09','org_f0ffb4a173e065bb8b9a','credit',100000,1795357249758584,'Balance set through the control interface');
INSERT INTO "transactions" VALUES(2,'txn_a63605e860ce053069e6','org_f0ffb4a173e065bb8b9a','deposit',2000,1795360911758584,'Deposit');
CREATE TABLE transfers (
	sequence INTEGER NOT NULL, 
	id VARCHAR NOT NULL, 
	workload_id VARCHAR NOT NULL, 
	from_organization_id VARCHAR NOT NULL, 
	to_organization_id VARCHAR NOT NULL, 
	created_at BIGINT NOT NULL, 
	accepted_at BIGINT, 
	withdrawn_at BIGINT, 
	PRIMARY KEY (sequence), 
	UNIQUE (id)
);
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
	node_id VARCHAR, 
	PRIMARY KEY (sequence)
);
INSERT INTO "usage_records" VALUES(1,'org_f0ffb4a173e065bb8b9a','pod_4ff31e43f14d6a4ed765','pod_4ff31e43f14d6a4ed765','pod','trainer','h100',498,1795357251,NULL,'node_c8b40c92f5dab3fb18e0');
INSERT INTO "usage_records" VALUES(2,'org_f0ffb4a173e065bb8b9a','pod_13422594081279111b85','pod_13422594081279111b85','pod','rests','a100',139,1795357251,1795357309,'node_2a278c9920fcba998497');
INSERT INTO "usage_records" VALUES(3,'org_f0ffb4a173e065bb8b9a','pod_00120c8e1df9d4b8818e','pod_00120c8e1df9d4b8818e','pod','ended','a100',139,1795357251,1795357309,'node_2a278c9920fcba998497');
INSERT INTO "usage_records" VALUES(4,'org_f0ffb4a173e065bb8b9a','vm_6187b4b2cd8d54dac552','vm_6187b4b2cd8d54dac552','vm','box','l40s',89,1795357251,NULL,'node_e57091d462941d7f5c08');
INSERT INTO "usage_records" VALUES(5,'org_f0ffb4a173e065bb8b9a','vm_fa7334aa55f4381f487d','vm_fa7334aa55f4381f487d','vm','cpu',NULL,4,1795357251,NULL,NULL);
INSERT INTO "usage_records" VALUES(6,'org_f0ffb4a173e065bb8b9a','rep_a2e812c610b660aff2ba','cluster_5e445cd31914da1869f4','cluster','llm','rtx4090',39,1795357251,NULL,'node_fdd1457adf5bf4e396ac');
INSERT INTO "usage_records" VALUES(7,'org_f0ffb4a173e065bb8b9a','rep_eb2f4c90ba267c9ba027','cluster_5e445cd31914da1869f4','cluster','llm','rtx4090',39,1795357251,NULL,'node_fdd1457adf5bf4e396ac');
INSERT INTO "usage_records" VALUES(8,'org_f0ffb4a173e065bb8b9a','rep_46333753f349fc950a7d','dep_10d3f77c7f846a975bc1','deployment','echo','l40s',89,1795360911,NULL,'node_e57091d462941d7f5c08');
INSERT INTO "usage_records" VALUES(9,'org_f0ffb4a173e065bb8b9a','rep_0563d997ab8b8a69dc87','dep_10d3f77c7f846a975bc1','deployment','echo','l40s',89,1795360911,NULL,'node_e57091d462941d7f5c08');
CREATE TABLE users (
	id VARCHAR NOT NULL, 
	email VARCHAR NOT NULL, 
	created_at BIGINT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (email)
);
INSERT INTO "users" VALUES('usr_29a0fe29a69dc88335b6','usr_29a0fe29a69dc88335b6@example.test',1795357249758584);
CREATE TABLE vm_logs (
	sequence INTEGER NOT NULL, 
	vm_id VARCHAR NOT NULL, 
	at BIGINT NOT NULL, 
	source VARCHAR NOT NULL, 
	line TEXT NOT NULL, 
	PRIMARY KEY (sequence)
);
INSERT INTO "vm_logs" VALUES(1,'vm_6187b4b2cd8d54dac552',1795357251758584,'boot','The VM booted.');
INSERT INTO "vm_logs" VALUES(2,'vm_fa7334aa55f4381f487d',1795357251758584,'boot','The VM booted.');
CREATE TABLE waiting_clusters (
	sequence INTEGER NOT NULL, 
	cluster_id VARCHAR NOT NULL, 
	gpu_model_id VARCHAR NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (cluster_id)
);
CREATE TABLE waiting_deployments (
	sequence INTEGER NOT NULL, 
	deployment_id VARCHAR NOT NULL, 
	gpu_model_id VARCHAR NOT NULL, 
	PRIMARY KEY (sequence), 
	UNIQUE (deployment_id)
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
CREATE TABLE webhook_deliveries (
	id VARCHAR NOT NULL, 
	webhook_id VARCHAR NOT NULL, 
	event_id VARCHAR NOT NULL, 
	event_type VARCHAR NOT NULL, 
	body TEXT NOT NULL, 
	held BOOLEAN NOT NULL, 
	PRIMARY KEY (id)
);
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
INSERT INTO "webhooks" VALUES('wh_e192f297f5754a87fe6e','org_f0ffb4a173e065bb8b9a','hook','http://127.0.0.1:9/hook','["vm.running"]','whsec_fd3f7c','ffa15f7e5c1dbbd50db7bfd42276881aa088812757ad2b9c2a760f87010e86c2',0,1795357249758584);
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
INSERT INTO "workloads" VALUES(1,'pod_4ff31e43f14d6a4ed765','pod','org_f0ffb4a173e065bb8b9a','trainer','running',NULL,NULL,1795357251758584,NULL,NULL,1795357249758584,NULL,'node_c8b40c92f5dab3fb18e0','h100',2,498,'a/b:1',0,'pod-4ff31e43f14d6a4ed765',80,50,50,'gpu-2x','standard','standard','on_demand','{"image":"a/b:1","name":"trainer","gpuModelId":"h100","gpuCount":2,"computeClass":"on_demand","httpPort":80,"public":false,"envVars":{"A":"1"},"sshKeys":["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE+fGryyE0DJsVbKoWftrga5FxG/JBt744ikBpgnW6rp ada@example.com"],"volumeGb":50}');
INSERT INTO "workloads" VALUES(2,'pod_13422594081279111b85','pod','org_f0ffb4a173e065bb8b9a','rests','stopped',NULL,NULL,1795357310758584,NULL,NULL,1795357249758584,NULL,'node_2a278c9920fcba998497','a100',1,139,'a/b:2',0,'pod-13422594081279111b85',80,50,50,'gpu-1x','standard','standard','on_demand','{"image":"a/b:2","name":"rests","gpuModelId":"a100","gpuCount":1,"computeClass":"on_demand","httpPort":80,"public":false,"volumeGb":50}');
INSERT INTO "workloads" VALUES(3,'pod_00120c8e1df9d4b8818e','pod','org_f0ffb4a173e065bb8b9a','ended','terminated',NULL,NULL,1795357309758584,NULL,NULL,1795357249758584,1795357309758584,'node_2a278c9920fcba998497','a100',1,139,'a/b:3',0,'pod-00120c8e1df9d4b8818e',80,50,50,'gpu-1x','standard','standard','on_demand','{"image":"a/b:3","name":"ended","gpuModelId":"a100","gpuCount":1,"computeClass":"on_demand","httpPort":80,"public":false,"volumeGb":50}');
INSERT INTO "workloads" VALUES(4,'vm_6187b4b2cd8d54dac552','vm','org_f0ffb4a173e065bb8b9a','box','running',NULL,NULL,1795357251758584,NULL,NULL,1795357249758584,NULL,'node_e57091d462941d7f5c08','l40s',1,89,'ubuntu:24.04',0,'vm-6187b4b2cd8d54dac552',80,0,50,'gpu-1x','standard','beta','on_demand','{"name":"box","gpuModelId":"l40s","gpuCount":1,"imageUrl":"ubuntu:24.04","sshKeyIds":["ssh_438e3479d7912693442d"],"public":false}');
INSERT INTO "workloads" VALUES(5,'vm_fa7334aa55f4381f487d','vm','org_f0ffb4a173e065bb8b9a','cpu','running',NULL,NULL,1795357251758584,NULL,NULL,1795357249758584,NULL,NULL,NULL,0,4,NULL,0,'vm-fa7334aa55f4381f487d',80,0,50,'small','standard','beta','on_demand','{"name":"cpu","resourceSize":"small","public":false}');
INSERT INTO "workloads" VALUES(6,'pod_d230be3496a7e5d32282','pod','org_f0ffb4a173e065bb8b9a','late','deploying',NULL,NULL,1795361569758584,1795361570758584,1795361573758584,1795361569758584,NULL,'node_e57091d462941d7f5c08','l40s',1,89,'late',0,'pod-d230be3496a7e5d32282',80,50,50,'gpu-1x','standard','standard','on_demand','{"image":"late","name":"late","gpuModelId":"l40s","gpuCount":1,"computeClass":"on_demand","httpPort":80,"public":false,"volumeGb":50}');
CREATE INDEX due_order ON due (lane, due_at, id);
CREATE INDEX due_calls ON due (lane) WHERE lane IS NOT NULL;
CREATE INDEX deliveries_held ON webhook_deliveries (webhook_id) WHERE held IS 1;
CREATE INDEX deliveries_of_webhook ON webhook_deliveries (webhook_id);
CREATE INDEX attempts_of_webhook ON webhook_attempts (webhook_id, sequence);
CREATE INDEX faults_by_operation ON faults (operation);
CREATE INDEX nodes_with_room ON nodes (organization_id, gpu_model_id, schedulable, free_count, sequence);
CREATE INDEX nodes_of_provider ON nodes (provider_id) WHERE provider_id IS NOT NULL;
CREATE INDEX transactions_of_organization ON transactions (organization_id, sequence);
CREATE UNIQUE INDEX open_usage_of_holder ON usage_records (holder_id) WHERE ended_at IS NULL;
CREATE INDEX usage_of_organization ON usage_records (organization_id, ended_at);
CREATE INDEX usage_on_node ON usage_records (node_id) WHERE node_id IS NOT NULL;
CREATE INDEX cards_of_organization ON payment_methods (organization_id, sequence);
CREATE UNIQUE INDEX charge_of_key ON charges (organization_id, idempotency_key);
CREATE INDEX files_of_organization ON files (organization_id, sequence);
CREATE INDEX batches_of_organization ON batches (organization_id, sequence);
CREATE INDEX batches_of_input ON batches (input_file_id);
CREATE INDEX live_deployments_of_model ON serving_deployments (catalog_id, public_model_id, sequence) WHERE gone_at IS NULL;
CREATE INDEX live_deployments ON serving_deployments (organization_id, sequence) WHERE gone_at IS NULL;
CREATE INDEX live_serving_replicas_on_node ON serving_replicas (node_id) WHERE terminated_at IS NULL;
CREATE INDEX live_replicas_of_deployment ON serving_replicas (deployment_id, sequence) WHERE terminated_at IS NULL;
CREATE INDEX backends_of_model ON inference_backends (organization_id, model_id, sequence);
CREATE INDEX workloads_on_node ON workloads (node_id) WHERE terminated_at IS NULL;
CREATE INDEX running_workloads ON workloads (organization_id) WHERE status = 'running';
CREATE INDEX live_workloads ON workloads (organization_id, sequence) WHERE terminated_at IS NULL;
CREATE UNIQUE INDEX live_names ON workloads (organization_id, kind, name) WHERE terminated_at IS NULL;
CREATE INDEX live_clusters ON clusters (organization_id, sequence) WHERE terminated_at IS NULL;
CREATE UNIQUE INDEX live_cluster_names ON clusters (organization_id, name) WHERE terminated_at IS NULL;
CREATE INDEX live_replicas_on_node ON replicas (node_id) WHERE terminated_at IS NULL;
CREATE INDEX live_replicas_of_cluster ON replicas (cluster_id, sequence) WHERE terminated_at IS NULL;
CREATE INDEX ix_waiting_clusters_gpu_model_id ON waiting_clusters (gpu_model_id);
CREATE INDEX ix_waiting_deployments_gpu_model_id ON waiting_deployments (gpu_model_id);
CREATE UNIQUE INDEX snapshot_names ON snapshots (vm_id, name);
CREATE INDEX snapshots_of_vm ON snapshots (vm_id, sequence);
CREATE INDEX log_of_vm ON vm_logs (vm_id, sequence);
CREATE UNIQUE INDEX open_transfers ON transfers (workload_id) WHERE accepted_at IS NULL AND withdrawn_at IS NULL;
CREATE UNIQUE INDEX registry_credential_names ON registry_credentials (organization_id, name);
CREATE UNIQUE INDEX runner_pool_names ON runner_pools (organization_id, name);
CREATE INDEX members_of_user ON members (user_id);
CREATE INDEX api_keys_of_organization ON api_keys (organization_id, created_at);
CREATE INDEX webhooks_of_organization ON webhooks (organization_id, created_at);
CREATE INDEX ix_reservations_node_id ON reservations (node_id);
CREATE INDEX claims_of_holder ON claims (holder_id);
CREATE INDEX tokens_of_provider ON provisioning_tokens (organization_id, sequence);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('due',36);
COMMIT;
