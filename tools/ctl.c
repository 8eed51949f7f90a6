/* ctl.c - `pfw ctl PID start|stop|step|flush|status`: steer a running process by its control page. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adopt.h"
#include "cli.h"
#include "control.h"
#include "lines.h"
#include "spool.h"
#include "store/json_print.h"

#define ANSWER_NS 1000000000ull

static const struct cli_option options[] = {
	{ "format", 0, "text|ndjson", "how `status` prints", 'f' },
	{ "quiet", 'q', NULL, "say only what failed", 'q' },
	{ 0 },
};

static const struct {
	const char *name, *done;
	enum pfw_wish wish;
} verbs[] = {
	{ "start", "is recording", PFW_WISH_START },
	{ "stop", "has stopped recording", PFW_WISH_STOP },
	{ "step", "has made a step", PFW_WISH_STEP },
	{ "flush", "has put into the trace what it has recorded", PFW_WISH_FLUSH },
	{ "status", NULL, PFW_WISH_NONE },
};

/* The header of a spool that is one, is ours and belongs to `pid`; NULL otherwise. */
static struct pfw_spool_header *map_header(int dir, const char *name, int32_t pid)
{
	int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct pfw_spool_header *header;
	struct stat st;

	if (fd < 0)
		return NULL;
	header = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
				 st.st_size >= PFW_SPOOL_HEADER_BYTES
			 ? mmap(NULL, PFW_SPOOL_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
				fd, 0)
			 : MAP_FAILED;
	close(fd);
	if (header == MAP_FAILED)
		return NULL;
	if (header->magic == PFW_SPOOL_MAGIC && header->version == PFW_SPOOL_VERSION &&
	    header->pid == pid && atomic_load(&header->state) == PFW_SPOOL_LIVE)
		return header;
	munmap(header, PFW_SPOOL_HEADER_BYTES);
	return NULL;
}

static struct pfw_spool_header *look_in(const char *path, int32_t pid)
{
	struct pfw_spool_header *header = NULL;
	char prefix[64];
	DIR *dir = opendir(path);

	snprintf(prefix, sizeof(prefix), PFW_SPOOL_PREFIX "%u-%d-", (unsigned)geteuid(), pid);
	for (struct dirent *entry; dir && !header && (entry = readdir(dir));)
		if (!strncmp(entry->d_name, prefix, strlen(prefix)))
			header = map_header(dirfd(dir), entry->d_name, pid);
	if (dir)
		closedir(dir);
	return header;
}

static struct pfw_spool_header *find(int32_t pid)
{
	struct pfw_spool_header *header = NULL;
	struct adopt_dirs dirs;

	adopt_dirs_find(&dirs, NULL);
	for (size_t i = 0; dirs.dir[i] && !header; i++)
		header = look_in(dirs.dir[i], pid);
	return header;
}

/* ---- status ---- */

/* The figures of the newest slot: as far as the trace has been written. */
static uint64_t written_events(const struct pfw_spool_header *header)
{
	const struct pfw_slot *a = &header->slot[0], *b = &header->slot[1];

	return atomic_load(&a->generation) > atomic_load(&b->generation) ? a->events : b->events;
}

static const char *action_name(const struct pfw_control *control)
{
	static const char *const names[] = { "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE" };
	uint32_t action = atomic_load(&control->action);

	return action < CLI_ARRAY_LEN(names) ? names[action] : "?";
}

static void print_status(struct pfw_spool_header *header, int format)
{
	struct pfw_control *control = &header->control;
	bool paused = atomic_load(&control->paused), steps = atomic_load(&control->stepping);
	const char *path = pfw_spool_trace_path(header);
	bool made = atomic_load(&header->file_made);
	uint64_t lost = pfw_lines_lost(header);

	if (format == CLI_NDJSON) {
		printf("{\"pid\":%d,\"rank\":%d,\"recording\":%s,\"events\":%" PRIu64
		       ",\"lost\":%" PRIu64,
		       header->pid, header->rank, paused ? "false" : "true", written_events(header),
		       lost);
		if (steps)
			printf(",\"step\":%" PRIu64 ",\"action\":\"%s\",\"cycles\":%" PRIu64,
			       atomic_load(&control->step), action_name(control),
			       atomic_load(&control->cycles));
		printf(",\"trace\":");
		pfw_json_print_string(stdout, path);
		printf(",\"made\":%s}\n", made ? "true" : "false");
		return;
	}
	printf("%d: %s", header->pid, paused ? "not recording" : "recording");
	if (steps)
		printf(", step %" PRIu64 " (%s), %s cycle%s written", atomic_load(&control->step),
		       action_name(control), cli_count(atomic_load(&control->cycles)),
		       cli_plural(atomic_load(&control->cycles)));
	printf(", %s event%s written, %s lost, %s%s\n", cli_count(written_events(header)),
	       cli_plural(written_events(header)), cli_count(lost), cli_name(path),
	       made ? "" : " (not made yet)");
}

/* ---- asking ---- */

static int ask(const struct cli_command *command, struct pfw_spool_header *header, size_t verb,
	       bool quiet)
{
	int error = pfw_control_ask(&header->control, verbs[verb].wish, ANSWER_NS);

	if (!error && !quiet)
		printf("%d %s\n", header->pid, verbs[verb].done);
	if (!error)
		return CLI_OK;
	if (error == -ETIMEDOUT)
		cli_error(
			command->name,
			"%d: no answer within a second: it is stopped, or has been idle and will %s "
			"with its next event",
			header->pid, verbs[verb].name);
	else
		cli_error(command->name, "%d: cannot %s: %s", header->pid, verbs[verb].name,
			  strerror(-error));
	return CLI_PROBLEMS;
}

/* The verb's number, or -1 after saying what is accepted. */
static int find_verb(const struct cli_command *command, const char *word)
{
	for (size_t i = 0; i < CLI_ARRAY_LEN(verbs); i++)
		if (!strcmp(verbs[i].name, word))
			return (int)i;
	cli_error(command->name, "%s: it is start, stop, step, flush or status", cli_name(word));
	return -1;
}

static bool read_pid(const struct cli_command *command, const char *word, int32_t *pid)
{
	char *end;
	long value = strtol(word, &end, 10);

	if (*word >= '1' && *word <= '9' && !*end && value <= INT32_MAX) {
		*pid = (int32_t)value;
		return true;
	}
	cli_error(command->name, "%s is no process id: give a number", cli_name(word));
	return false;
}

static int steer(const struct cli_command *command, char **operand, int format, bool quiet)
{
	struct pfw_spool_header *header;
	int verb = find_verb(command, operand[1]);
	int32_t pid;

	if (verb < 0 || !read_pid(command, operand[0], &pid))
		return CLI_USAGE;
	header = find(pid);
	if (!header || (kill(pid, 0) < 0 && errno == ESRCH)) {
		cli_error(command->name,
			  "%d: no process of yours that is traced; its spool is looked for in "
			  "PFW_SPOOL_DIR, /dev/shm, TMPDIR and /tmp",
			  pid);
		return CLI_PROBLEMS;
	}
	if (verbs[verb].wish != PFW_WISH_NONE)
		return ask(command, header, (size_t)verb, quiet);
	print_status(header, format);
	return CLI_OK;
}

static int run_ctl(const struct cli_command *command, int argc, char **argv)
{
	int format = CLI_TEXT, option;
	struct cli_args args;
	bool quiet = false;

	cli_args_init(&args, command, argc, argv);
	while ((option = cli_next(&args)) >= 0) {
		if (option == 'q')
			quiet = true;
		else if ((format = cli_format(command, args.value, 2)) < 0)
			return CLI_USAGE;
	}
	if (option != CLI_DONE)
		return cli_ended(&args, option);
	if (args.operands != 2) {
		cli_error(command->name, "give a process id and what it is to do: pfw ctl PID "
					 "start|stop|step|flush|status");
		return CLI_USAGE;
	}
	return cli_finish(stdout, command, steer(command, argv, format, quiet));
}

const struct cli_command cli_ctl = {
	.name = "ctl",
	.operands = "PID start|stop|step|flush|status",
	.summary = "Steer a process that is being traced",
	.details =
		"start, stop: record from now on, or do not; the processes that it has started and\n"
		"that count no steps of their own follow it.  A schedule goes on where the two agree.\n"
		"step: as pfw_step() in the program, but no hook is called.\n"
		"flush: put into the trace what has been recorded.\n",
	.options = options,
	.failure = CLI_USAGE,
	.main = run_ctl,
};
