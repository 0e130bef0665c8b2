create table sless.invocations (
	started timestamptz not null,
	duration_us bigint not null,
	id text not null,
	namespace text not null,
	namespace_uid uuid not null,
	function text not null,
	trigger text not null,
	job text not null,
	kind text not null check (kind in ('http', 'cron', 'job', 'invoke')),
	image text not null,
	code_hash text not null,
	status integer not null,
	code text not null,
	queued_us bigint not null,
	starting_us bigint not null,
	handler_us bigint not null,
	bytes_in bigint not null,
	bytes_out bigint not null,
	pod text not null,
	caller text not null,
	attempt integer not null,
	dropped integer not null
) partition by range (started);

-- Both are read backwards, newest first. The first one also keeps a batch that is written twice from counting twice.
create unique index invocations_by_namespace on sless.invocations (namespace_uid, started, id);
create index invocations_by_function on sless.invocations (namespace_uid, function, started, id);
