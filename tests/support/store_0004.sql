CREATE TABLE run (
	run_id VARCHAR(64) NOT NULL,
	job_name TEXT NOT NULL,
	job_text TEXT NOT NULL,
	job_hash TEXT NOT NULL,
	seed VARCHAR(20) NOT NULL,
	submitted_utc VARCHAR(32) NOT NULL,
	submitted_by TEXT NOT NULL,
	agents JSON NOT NULL,
	"plan" JSON NOT NULL,
	manifest JSON NOT NULL,
	state VARCHAR(16) NOT NULL,
	state_detail TEXT NOT NULL,
	t0_utc VARCHAR(32),
	started_utc VARCHAR(32),
	finished_utc VARCHAR(32),
	verdict VARCHAR(8),
	priority INTEGER DEFAULT '0' NOT NULL,
	schedule_id VARCHAR(64),
	PRIMARY KEY (run_id)
);
CREATE INDEX run_by_submission ON run (submitted_utc, run_id);
CREATE TABLE schedule (
	schedule_id VARCHAR(64) NOT NULL,
	name VARCHAR(255) NOT NULL,
	request BLOB NOT NULL,
	state VARCHAR(16) NOT NULL,
	created_utc VARCHAR(32) NOT NULL,
	created_by TEXT NOT NULL,
	settled_utc VARCHAR(32) NOT NULL,
	PRIMARY KEY (schedule_id),
	UNIQUE (name)
);
CREATE TABLE maintenance (
	window_id VARCHAR(64) NOT NULL,
	request BLOB NOT NULL,
	PRIMARY KEY (window_id)
);
CREATE TABLE audit (
	number INTEGER NOT NULL,
	at_utc VARCHAR(32) NOT NULL,
	who TEXT NOT NULL,
	role VARCHAR(16) NOT NULL,
	peer TEXT NOT NULL,
	action VARCHAR(32) NOT NULL,
	subject TEXT NOT NULL,
	detail TEXT NOT NULL,
	PRIMARY KEY (number)
);
CREATE TABLE run_agent (
	run_id VARCHAR(64) NOT NULL,
	agent VARCHAR(255) NOT NULL,
	facts JSON NOT NULL,
	PRIMARY KEY (run_id, agent),
	FOREIGN KEY(run_id) REFERENCES run (run_id) ON DELETE CASCADE
);
CREATE TABLE run_event (
	run_id VARCHAR(64) NOT NULL,
	number INTEGER NOT NULL,
	at_utc VARCHAR(32) NOT NULL,
	kind VARCHAR(64) NOT NULL,
	text TEXT NOT NULL,
	PRIMARY KEY (run_id, number),
	FOREIGN KEY(run_id) REFERENCES run (run_id) ON DELETE CASCADE
);
CREATE TABLE run_clock (
	run_id VARCHAR(64) NOT NULL,
	agent VARCHAR(255) NOT NULL,
	at_ns BIGINT NOT NULL,
	offset_ns BIGINT NOT NULL,
	bound_ns BIGINT NOT NULL,
	PRIMARY KEY (run_id, agent, at_ns),
	FOREIGN KEY(run_id) REFERENCES run (run_id) ON DELETE CASCADE
);
CREATE TABLE monitor_description (
	run_id VARCHAR(64) NOT NULL,
	agent VARCHAR(255) NOT NULL,
	monitor TEXT NOT NULL,
	metrics JSON NOT NULL,
	facts JSON NOT NULL,
	PRIMARY KEY (run_id, agent, monitor),
	FOREIGN KEY(run_id) REFERENCES run (run_id) ON DELETE CASCADE
);
CREATE TABLE monitor_sample (
	run_id VARCHAR(64) NOT NULL,
	agent VARCHAR(255) NOT NULL,
	monitor TEXT NOT NULL,
	at_ns BIGINT NOT NULL,
	took_ns BIGINT NOT NULL,
	packed_values BLOB NOT NULL,
	failure TEXT,
	PRIMARY KEY (run_id, agent, monitor, at_ns),
	FOREIGN KEY(run_id) REFERENCES run (run_id) ON DELETE CASCADE
);
CREATE TABLE interval (
	run_id VARCHAR(64) NOT NULL,
	agent VARCHAR(255) NOT NULL,
	epoch INTEGER NOT NULL,
	sequence INTEGER NOT NULL,
	interval_index INTEGER NOT NULL,
	phase VARCHAR(16) NOT NULL,
	start_ns BIGINT NOT NULL,
	end_ns BIGINT NOT NULL,
	final BOOLEAN NOT NULL,
	clock_step_ns BIGINT NOT NULL,
	has_host BOOLEAN NOT NULL,
	cpu_utilisation FLOAT,
	steal_share FLOAT,
	throttled_ns BIGINT,
	PRIMARY KEY (run_id, agent, epoch, sequence),
	FOREIGN KEY(run_id) REFERENCES run (run_id) ON DELETE CASCADE
);
CREATE INDEX interval_by_index ON interval (run_id, interval_index);
CREATE TABLE submission (
	run_id VARCHAR(64) NOT NULL,
	request BLOB NOT NULL,
	not_before_utc VARCHAR(32),
	after_run VARCHAR(64),
	after_if VARCHAR(8),
	PRIMARY KEY (run_id),
	FOREIGN KEY(run_id) REFERENCES run (run_id) ON DELETE CASCADE
);
CREATE TABLE schedule_fire (
	schedule_id VARCHAR(64) NOT NULL,
	due_utc VARCHAR(32) NOT NULL,
	at_utc VARCHAR(32) NOT NULL,
	outcome VARCHAR(16) NOT NULL,
	run_ids JSON NOT NULL,
	detail TEXT NOT NULL,
	PRIMARY KEY (schedule_id, due_utc),
	FOREIGN KEY(schedule_id) REFERENCES schedule (schedule_id) ON DELETE CASCADE
);
CREATE TABLE operation_interval (
	run_id VARCHAR(64) NOT NULL,
	agent VARCHAR(255) NOT NULL,
	epoch INTEGER NOT NULL,
	sequence INTEGER NOT NULL,
	stream VARCHAR(255) NOT NULL,
	operation VARCHAR(255) NOT NULL,
	measured BOOLEAN NOT NULL,
	interval_index INTEGER NOT NULL,
	scheduled BIGINT DEFAULT '0' NOT NULL,
	sent BIGINT DEFAULT '0' NOT NULL,
	completed BIGINT DEFAULT '0' NOT NULL,
	succeeded BIGINT DEFAULT '0' NOT NULL,
	expected BIGINT DEFAULT '0' NOT NULL,
	failed BIGINT DEFAULT '0' NOT NULL,
	dropped BIGINT DEFAULT '0' NOT NULL,
	timed_out BIGINT DEFAULT '0' NOT NULL,
	unresolved BIGINT DEFAULT '0' NOT NULL,
	abandoned BIGINT DEFAULT '0' NOT NULL,
	substituted BIGINT DEFAULT '0' NOT NULL,
	captures_missing BIGINT DEFAULT '0' NOT NULL,
	requests BIGINT DEFAULT '0' NOT NULL,
	entries BIGINT DEFAULT '0' NOT NULL,
	"references" BIGINT DEFAULT '0' NOT NULL,
	result_codes JSON NOT NULL,
	response_time_succeeded BLOB,
	response_time_failed BLOB,
	response_time_expected BLOB,
	response_time_timed_out BLOB,
	response_time_unresolved BLOB,
	service_time_succeeded BLOB,
	service_time_failed BLOB,
	service_time_expected BLOB,
	service_time_timed_out BLOB,
	service_time_unresolved BLOB,
	send_lag_succeeded BLOB,
	send_lag_failed BLOB,
	send_lag_expected BLOB,
	send_lag_timed_out BLOB,
	send_lag_unresolved BLOB,
	receive_lag_succeeded BLOB,
	receive_lag_failed BLOB,
	receive_lag_expected BLOB,
	receive_lag_timed_out BLOB,
	receive_lag_unresolved BLOB,
	backlog_wait_succeeded BLOB,
	backlog_wait_failed BLOB,
	backlog_wait_expected BLOB,
	backlog_wait_timed_out BLOB,
	backlog_wait_unresolved BLOB,
	PRIMARY KEY (run_id, agent, epoch, sequence, stream, operation, measured),
	FOREIGN KEY(run_id, agent, epoch, sequence) REFERENCES interval (run_id, agent, epoch, sequence) ON DELETE CASCADE
);
CREATE INDEX operation_interval_by_index ON operation_interval (run_id, interval_index);
CREATE TABLE stream_interval (
	run_id VARCHAR(64) NOT NULL,
	agent VARCHAR(255) NOT NULL,
	epoch INTEGER NOT NULL,
	sequence INTEGER NOT NULL,
	stream VARCHAR(255) NOT NULL,
	interval_index INTEGER NOT NULL,
	connects BIGINT DEFAULT '0' NOT NULL,
	connect_failures BIGINT DEFAULT '0' NOT NULL,
	disconnects BIGINT DEFAULT '0' NOT NULL,
	protocol_errors BIGINT DEFAULT '0' NOT NULL,
	late_responses BIGINT DEFAULT '0' NOT NULL,
	unexpected_messages BIGINT DEFAULT '0' NOT NULL,
	notices BIGINT DEFAULT '0' NOT NULL,
	stamps_missing BIGINT DEFAULT '0' NOT NULL,
	binds BIGINT DEFAULT '0' NOT NULL,
	extended BIGINT DEFAULT '0' NOT NULL,
	unbinds BIGINT DEFAULT '0' NOT NULL,
	in_flight BIGINT DEFAULT '0' NOT NULL,
	backlog BIGINT DEFAULT '0' NOT NULL,
	last_done_ns BIGINT,
	connect_time BLOB,
	tcp_time BLOB,
	tls_time BLOB,
	bind_time BLOB,
	PRIMARY KEY (run_id, agent, epoch, sequence, stream),
	FOREIGN KEY(run_id, agent, epoch, sequence) REFERENCES interval (run_id, agent, epoch, sequence) ON DELETE CASCADE
);
CREATE INDEX stream_interval_by_index ON stream_interval (run_id, interval_index);
CREATE TABLE worker_interval (
	run_id VARCHAR(64) NOT NULL,
	agent VARCHAR(255) NOT NULL,
	epoch INTEGER NOT NULL,
	sequence INTEGER NOT NULL,
	worker INTEGER NOT NULL,
	model VARCHAR(16) NOT NULL,
	interval_index INTEGER NOT NULL,
	wall_ns BIGINT DEFAULT '0' NOT NULL,
	busy_ns BIGINT DEFAULT '0' NOT NULL,
	spin_ns BIGINT DEFAULT '0' NOT NULL,
	cpu_ns BIGINT DEFAULT '0' NOT NULL,
	run_queue_ns BIGINT DEFAULT '0' NOT NULL,
	loops BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY (run_id, agent, epoch, sequence, worker, model),
	FOREIGN KEY(run_id, agent, epoch, sequence) REFERENCES interval (run_id, agent, epoch, sequence) ON DELETE CASCADE
);
CREATE INDEX worker_interval_by_index ON worker_interval (run_id, interval_index);
CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY);
