/* recorder/session/start.c - reads the variables and sets up the recorder in a process. */
#define PFW_BUILDING
#include <pfw/pfw.h>

#include <string.h>
#include <sys/auxv.h>

#include "common/base/globs.h"
#include "common/base/os.h"
#include "common/base/text.h"
#include "common/format/clock.h"
#include "common/format/gzip.h"
#include "recorder/gpu/cupti.h"
#include "recorder/guest/say.h"
#include "recorder/guest/thread.h"
#include "recorder/marks/api.h"
#include "recorder/marks/torch_ops.h"
#include "recorder/probe/call_filter.h"
#include "recorder/probe/path_filter.h"
#include "recorder/sample/nvml.h"
#include "recorder/session/internal.h"
#include "recorder/session/stepper.h"
#include "recorder/spool/templates.h"
#include "recorder/stack/stack.h"
#include "recorder/wrap/exec_env.h"
#include "recorder/writer/trace_file.h"

extern char **environ;

static char *const *variables(void)
{
	return pfw_session.variables ? pfw_session.variables : environ;
}

/* Once each, though the constructor, the preload object and pfw_start() all try to start. */
static void say_config(void *user, const char *line)
{
	(void)user;
	pfw_say_quiet(pfw_session.config.quiet); /* read before the first message */
	if (!pfw_session.config_reported)
		pfw_say(line);
}

static void say_bad_name(int error, const char *word)
{
	char line[512];
	struct pfw_text text;

	pfw_text_init(&text, line, sizeof(line));
	pfw_text_add(&text, "DFTRACER_LOG_FILE: the trace's name ");
	if (error == -ENAMETOOLONG) {
		pfw_text_add(
			&text,
			"is too long (a file's takes 255 bytes, its path 1023 before % words are "
			"replaced and 4095 after)");
	} else if (error == -ENOENT) {
		pfw_text_add(&text, "is relative, and the current directory is not there: give an "
				    "absolute one");
	} else if (*word) {
		PFW_TEXT_ADD(&text, "has no word ", word, "; it takes %p %h %r %j %q{VAR} %%");
	} else {
		pfw_text_add(&text, "is empty");
	}
	pfw_text_add(&text, "; nothing is recorded under it");
	say_config(NULL, line);
}

static bool have_gzip(void)
{
	if (!pfw_session.gzip && pfw_gzip_open(&pfw_session.gzip))
		pfw_say("neither libisal.so.2 nor libz.so.1 can be loaded: the trace is not "
			"compressed");
	return pfw_session.gzip;
}

int pfw_session_find_name(char *path, bool *compressed)
{
	bool asked, can;
	int error = pfw_identity_trace(&pfw_session.identity, &pfw_session.config, path, &asked);

	if (error) {
		say_bad_name(error, path);
		return error;
	}
	can = asked && have_gzip();
	if (pfw_session.writer.ready)
		can = pfw_writer_compress(&pfw_session.writer, can ? pfw_session.gzip : NULL);
	if (asked && !can)
		path[strlen(path) - strlen(".gz")] = '\0';
	else if (!asked && can && strlen(path) + sizeof(".gz") <= PFW_PATH_MAX)
		memcpy(path + strlen(path), ".gz", sizeof(".gz"));
	*compressed = can;
	return 0;
}

struct trace_name {
	char path[PFW_PATH_MAX];
	bool compressed;
};

static void fill_header(struct pfw_spool_header *header, void *user)
{
	const struct trace_name *name = user;
	const struct pfw_identity *id = &pfw_session.identity;

	header->start_ns = pfw_clock_ns(CLOCK_REALTIME);
	header->whole_us = pfw_session.config.whole_us;
	header->metadata = pfw_session.config.metadata;
	header->disable_tids = pfw_session.config.disable_tids;
	header->stacks = pfw_session.config.stack.min_ns || pfw_session.config.stack.every;
	pfw_identity_header(id, header);
	strcpy(header->clock, pfw_clock_name());
	memcpy(header->version_text, PFW_VERSION, sizeof(PFW_VERSION));
	header->compressed = name->compressed;
	header->keep_bytes = pfw_session.config.keep.bytes;
	header->keep_ns = pfw_session.config.keep.ns;
	atomic_store(&header->control.paused, pfw_session.paused);
	if (!header->keep_bytes || pfw_name_dump(pfw_spool_trace_path(header), name->path, 1))
		memcpy(pfw_spool_trace_path(header), name->path, strlen(name->path) + 1);
}

static bool say_no_memory(void)
{
	say_config(NULL, "no memory (RLIMIT_AS, vm.max_map_count?): this process is not recorded");
	return false;
}

bool pfw_session_may_write(const char *path)
{
	int error = pfw_output_may_create(path);

	if (error)
		pfw_output_say_error(pfw_say, path, error, false);
	return !error;
}

static char directory[PFW_PATH_MAX]; /* of the trace */

const char *pfw_session_why_untraced(void)
{
	switch (-pfw_syscall6(SYS_faccessat, AT_FDCWD, (long)directory, W_OK | X_OK, 0, 0, 0)) {
	case EACCES:
		return "its trace cannot be created: EACCES";
	case EROFS:
		return "its trace cannot be created: EROFS";
	default:
		return NULL;
	}
}

#define SPOOL_REST_BYTES (4u << 20) /* names, sums, templates */

static char keep_name[PFW_PATH_MAX]; /* struct pfw_writer's */

static void say_no_directory(void)
{
	const char *set = pfw_session.config.spool_dir;
	char line[512];
	struct pfw_text text;

	pfw_text_init(&text, line, sizeof(line));
	if (set && *set)
		PFW_TEXT_ADD(
			&text, "PFW_SPOOL_DIR=", set,
			": no directory for the spool (absent, read-only or full, or ulimit -f "
			"is below 512 KiB): make it or unset the variable; ");
	else
		pfw_text_add(&text, "no directory for the spool (/dev/shm, TMPDIR, the trace's; or "
				    "ulimit -f is below 512 KiB); ");
	pfw_text_add(&text, "events not yet written are lost if the process is killed");
	pfw_say(line);
}

bool pfw_session_make_process(const struct pfw_spool_header *parent)
{
	struct pfw_identity *id = &pfw_session.identity;
	struct trace_name name;
	struct pfw_spool_owner owner = {
		.uid = id->uid,
		.pid = id->process.pid,
		.start_time = id->process.start_time,
		.fill = fill_header,
		.leaves = pfw_session.variables != NULL,
		.user = &name,
	};

	if (!id->rank.recorded || pfw_session_find_name(name.path, &name.compressed))
		return false;
	/* `pfw attach` reports the error at once; the writer would report it only at the first event. */
	if (pfw_session.variables && !pfw_session_may_write(name.path))
		return false;
	if (pfw_session.writer.first_slots) /* the child's first event is waiting */
		pfw_writer_first_bytes(&pfw_session.writer, &owner.made_bytes, &owner.mapped_bytes);
	if (pfw_session.config.keep.bytes) {
		owner.asked_bytes = pfw_session.config.keep.grows
					    ? UINT64_MAX
					    : pfw_session.config.keep.bytes + SPOOL_REST_BYTES;
		memcpy(keep_name, name.path, strlen(name.path) + 1);
	}
	/* A process in a pid namespace of its own sees no parent pid. */
	if (parent && id->process.ppid == parent->pid)
		owner.pid_namespace = parent->pid_namespace;
	memcpy(directory, name.path, strlen(name.path) + 1);
	strrchr(directory, '/')[1] = '\0';
	if (pfw_spool_create(&pfw_session.spool, &id->dirs, &owner))
		return say_no_memory();
	if (pfw_session.spool.heap)
		say_no_directory();
	pfw_path_filter_set_trace(name.path);
	pfw_stepper_page(&pfw_session.spool.header->control);
	pfw_path_filter_count_into(pfw_session.spool.header->excluded);
	pfw_session_wire_ring();
	pfw_session.writer.gzip = name.compressed ? pfw_session.gzip : NULL;
	return true;
}

/* ---- the start ---- */

bool pfw_session_set_up_filter(void)
{
	const struct pfw_path_filter_python python = {
		.exe = pfw_session.identity.exe,
		.called = pfw_session.identity.called,
		.venv = pfw_config_lookup(pfw_session.identity.environ, "VIRTUAL_ENV"),
		.cwd = pfw_session.identity.cwd[0] ? pfw_session.identity.cwd : NULL,
	};
	int error = pfw_path_filter_init(&pfw_session.config, &python);

	if (error == -E2BIG)
		pfw_say("DFTRACER_DATA_DIR has more than 64 directories, or 8 KiB of names: those "
			"at its end are not traced; name a directory above them");
	else if (error && atomic_load(&pfw_session.state) != FRESH)
		pfw_say("the files to trace cannot be changed once more (no memory, or more than "
			"31 times another list): those chosen before stay; give pfw_start() a "
			"list that it has had");
	return error != -ENOMEM;
}

static void set_up_calls(void)
{
	if (!pfw_call_filter_init(&pfw_session.config) && !pfw_session.config.disable_io)
		say_config(NULL,
			   "PFW_CALLS, DFTRACER_DISABLE_POSIX and DFTRACER_DISABLE_STDIO leave "
			   "no call to record; `pfw calls` lists all");
}

/* Silence would look as if the program never made the call. */
static void say_unmatched_calls(void)
{
	size_t bytes = 0;
	const char *glob = pfw_call_filter_unmatched(pfw_session.config.calls, &bytes);
	struct pfw_text text;
	char line[256];

	if (!glob)
		return;
	pfw_text_init(&text, line, sizeof(line));
	pfw_text_add(&text, "PFW_CALLS: no call is named ");
	pfw_text_add_bytes(&text, glob, bytes < 100 ? bytes : 100);
	pfw_text_add(&text, "; `pfw calls` lists all");
	say_config(NULL, line);
}

/* PFW_RANKS leaves out all there is.  Said by rank 0, which need not be one of the list, or by a process
 * without a rank that has called pfw_start(): what a job's script starts besides says nothing.  `pfw
 * run` says it itself. */
static void say_no_rank(bool asked)
{
	const struct pfw_rank *rank = &pfw_session.identity.rank;
	const char *ranks = pfw_session.config.ranks;
	struct pfw_text text;
	char line[512];

	if (rank->recorded || rank->launcher || rank->rank > 0 || (rank->rank < 0 && !asked) ||
	    pfw_session.identity.descendant || pfw_session.config.run)
		return;
	for (int32_t i = 1; rank->rank == 0 && i < rank->world_size; i++)
		if (pfw_config_ranks_hold(ranks, (uint64_t)i) > 0)
			return;
	pfw_text_init(&text, line, sizeof(line));
	PFW_TEXT_ADD(
		&text, "nothing is recorded: PFW_RANKS=", ranks,
		rank->rank
			? " leaves out this process: no launcher's variable gives it a rank, so it "
			  "counts as rank 0; set PFW_RANK, or unset PFW_RANKS"
			: " has no rank of this job: name some of 0 to ");
	if (!rank->rank)
		pfw_text_add_u64(&text, (uint64_t)rank->world_size - 1, 1);
	say_config(NULL, line);
}

/* Whether PFW_CHILDREN matches this program, by the name of its file or as it was called (a script,
 * a link); *matched: by which globs. */
static bool is_wanted_child(uint64_t *matched)
{
	const char *globs = pfw_session.config.children,
		   *exe = strrchr(pfw_session.identity.exe, '/');
	char comm[16] = { 0 };

	*matched = 0;
	if (!globs || pfw_text_same(globs, "all") || pfw_text_same(globs, "none"))
		return !globs || pfw_text_same(globs, "all");
	pfw_syscall6(SYS_prctl, 16 /* PR_GET_NAME */, (long)comm, 0, 0, 0, 0);
	*matched = pfw_glob_names(globs, ',', comm) |
		   (exe ? pfw_glob_names(globs, ',', exe + 1) : 0);
	return *matched;
}

/* If a seccomp filter refuses futex(), libc aborts a process that starts a second thread. */
static bool may_have_threads(void)
{
	static const uint32_t word;

	if (pfw_syscall6(SYS_futex, (long)&word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0) >= 0)
		return true;
	say_config(NULL, "nothing is recorded: the system refuses futex() (seccomp), without which "
			 "there is no thread to write a trace; allow it in the filter");
	return false;
}

static void set_up_writer(void)
{
	const struct pfw_config *config = &pfw_session.config;
	struct pfw_writer *writer = &pfw_session.writer;

	writer->spool = &pfw_session.spool;
	writer->flush_ns = config->flush_ns;
	writer->text_limit = config->write_buffer_bytes;
	writer->ring_max_bytes = config->ring_max_bytes;
	writer->sums = pfw_call_filter_sums(config);
	writer->stacks = config->stack.min_ns || config->stack.every;
	/* These call dlopen, so libc must know the thread; the user has asked for them. */
	writer->worker.known = config->torch_ops || pfw_torch_steps(config) ||
			       (config->gpu & PFW_GPU_ASKED) ||
			       (config->gpu && config->plan.kind == PFW_PLAN_RANGE) ||
			       (config->gpu && config->counters_ns && pfw_nvml_driver());
	writer->max_bytes = config->max_bytes;
	writer->keep_bytes = config->keep.bytes;
	writer->keep_grows = config->keep.grows;
	writer->keep_ticks = config->keep.ns ? pfw_clock_ticks_of(config->keep.ns) : 0;
	writer->keep_name = keep_name;
	pfw_session_wire_writer();
}

/* False: nothing will be recorded. */
static bool begin(bool asked)
{
	struct pfw_template_ids ids;
	uint64_t children;
	bool filtered;

	pfw_config_read(&pfw_session.config, variables(), NULL, NULL);
	if (!pfw_session.config.enable && asked && !pfw_session.config.enable_set)
		pfw_config_read_enabled(&pfw_session.config, variables(), NULL, NULL);
	pfw_say_quiet(pfw_session.config.quiet);
	if (!pfw_session.config.enable) {
		pfw_config_read(&pfw_session.config, variables(), say_config, NULL);
		return false;
	}
	if (!may_have_threads())
		return false;
	pfw_clock_init();
	pfw_own_thread_init();
	pfw_identity_find(&pfw_session.identity, &pfw_session.config, variables());
	/* Once a run: its other processes have the same variables. */
	if (!pfw_session.identity.descendant && pfw_session.identity.rank.rank <= 0)
		pfw_config_read_enabled(&pfw_session.config, variables(), say_config, NULL);
	if (!pfw_session.identity.descendant && pfw_session.identity.rank.rank <= 0)
		say_unmatched_calls();
	say_no_rank(asked);
	pfw_session.children = is_wanted_child(&children);
	if (pfw_session.identity.child && !pfw_session.children)
		return false;
	filtered = pfw_session_set_up_filter();
	set_up_calls();
	pfw_stack_init(&pfw_session.config);
	set_up_writer();
	if (!filtered || !pfw_session_make_switches())
		return say_no_memory();
	if (!pfw_session_make_process(NULL))
		return false;
	pfw_session_mark_globs(children);
	ids = pfw_templates_ids();
	pfw_api_templates(&ids);
	pfw_api_steps(pfw_torch_steps(&pfw_session.config) ? NULL : pfw_session.config.step);
	pfw_session_wire_counters(ids.api);
	pfw_nvml_init(pfw_config_lookup(pfw_session.identity.environ, "CUDA_VISIBLE_DEVICES"));
	pfw_torch_ops_init(&pfw_session.config);
	pfw_exec_env_init(&pfw_session.config, pfw_session.identity.environ, ids.untraced);
	pfw_cupti_init(&pfw_session.config, ids.pp);
	pfw_session_wire_probes();
	return true;
}

struct start {
	const struct pfw_spool_header *leader;
	bool asked, started;
};

static void start(void *arg)
{
	const struct pfw_identity *id = &pfw_session.identity;
	struct start *start = arg;

	if (atomic_load(&pfw_session.state) != FRESH)
		return; /* another thread's pfw_start() */
	if (!begin(start->asked)) {
		/* Not enabled, the constructor reads no other variable: pfw_start() will. */
		pfw_session.config_reported = pfw_session.config.enable ||
					      pfw_session.config.enable_set;
		if (start->asked)
			atomic_store(&pfw_session.state, OFF);
		return;
	}
	if (id->leader.pid)
		start->leader = pfw_spool_watch(&id->dirs, id->uid, id->leader.pid,
						id->leader.start_time, false);
	start->started = true;
	atomic_store(&pfw_session.state, ON);
	pfw_session_switch();
}

bool pfw_session_start(bool asked)
{
	struct start call = { .asked = asked };

	/* A set-user-ID program, or one with capabilities: the user who started the program chose the
	 * variables, has fewer rights than the program, and would choose what it writes. */
	if (getauxval(AT_SECURE))
		return false;
	if (atomic_load(&pfw_session.state) == FRESH)
		pfw_session_do(start, &call);
	if (call.started) {
		pfw_stepper_begin(&pfw_session.config.plan, call.leader,
				  pfw_session.config.step != NULL);
		pfw_session_keep_writer();
	}
	return atomic_load(&pfw_session.state) == ON;
}
