/* tools/ctl.c - `pfw ctl`: steers a running process through its control page. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/encode/own_lines.h"
#include "common/format/control.h"
#include "common/format/spool.h"
#include "share/adopt.h"
#include "store/json/print.h"
#include "store/sys/open.h"
#include "ui/cli.h"

#define ANSWER_NS 1000000000ull

struct ctl {
	int format;
	bool quiet;
};

static const struct cli_option options[] = {
	{ "format", 0, "text|ndjson", "output of `status`", CLI_INTO(struct ctl, format) },
	{ "quiet", 'q', NULL, "print only failures", CLI_INTO(struct ctl, quiet) },
	{ 0 },
};

static const struct {
	const char *name, *done;
	enum pfw_request wish;
} verbs[] = {
	{ "start", "is recording", PFW_WISH_START },
	{ "stop", "has stopped recording", PFW_WISH_STOP },
	{ "step", "has made a step", PFW_WISH_STEP },
	{ "flush", "has put into the trace what it has recorded", PFW_WISH_FLUSH },
	{ "dump", "has dumped what it kept", PFW_WISH_DUMP },
	{ "status", NULL, PFW_WISH_NONE },
};

/* Map the header of a spool if it is a live one of `pid` that belongs to this user; else NULL. */
static struct pfw_spool_header *map_header(const char *directory, const char *name, int32_t pid)
{
	struct pfw_spool_header *header;
	char path[PATH_MAX];
	struct stat st;
	int fd = -ENAMETOOLONG;

	if (snprintf(path, sizeof(path), "%s/%s", directory, name) < (int)sizeof(path))
		fd = pfw_open_file(path, PFW_OPEN_WRITE | PFW_OPEN_MINE, &st);
	if (fd < 0)
		return NULL;
	header = st.st_size >= PFW_SPOOL_HEADER_BYTES
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
			header = map_header(path, entry->d_name, pid);
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

/* Events in the trace file, from the newest slot. */
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
	uint64_t lost = pfw_spool_lost(header);
	struct pfw_printer json = { .out = stdout };

	if (format == CLI_NDJSON) {
		pfw_print(&json, "{'pid':%d,'rank':%d", header->pid, header->rank);
		pfw_print(&json, paused ? "'recording':false" : "'recording':true");
		pfw_print(&json, "'events':%" PRIu64 ",'lost':%" PRIu64, written_events(header),
			  lost);
		if (steps)
			pfw_print(&json, "'step':%" PRIu64 ",'action':%s,'cycles':%" PRIu64,
				  atomic_load(&control->step), action_name(control),
				  atomic_load(&control->cycles));
		pfw_print(&json, made ? "'trace':%s,'made':true}\n" : "'trace':%s,'made':false}\n",
			  path);
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

/* ---- requests ---- */

static int ask(const struct cli_command *command, struct pfw_spool_header *header, size_t verb,
	       bool quiet)
{
	bool dump = verbs[verb].wish == PFW_WISH_DUMP;
	int error = pfw_control_ask(&header->control, verbs[verb].wish,
				    dump ? PFW_CONTROL_DUMP_NS : ANSWER_NS);

	if (!error && !quiet)
		printf("%d %s\n", header->pid, verbs[verb].done);
	if (!error)
		return CLI_OK;
	if (error == -ETIMEDOUT)
		cli_error(command->name,
			  "%d: no answer within %s: the process is stopped, or is idle and will %s "
			  "at its next event",
			  header->pid, dump ? "a minute" : "a second", verbs[verb].name);
	else if (error == -ENODATA)
		cli_error(command->name,
			  "%d: nothing to dump: the process has recorded no event, or runs without "
			  "PFW_KEEP",
			  header->pid);
	else
		cli_error(command->name, "%d: cannot %s: %s", header->pid, verbs[verb].name,
			  strerror(-error));
	return CLI_PROBLEMS;
}

/* The index of a verb, or -1 after a message. */
static int find_verb(const struct cli_command *command, const char *word)
{
	for (size_t i = 0; i < CLI_ARRAY_LEN(verbs); i++)
		if (!strcmp(verbs[i].name, word))
			return (int)i;
	cli_error(command->name, "%s is none of start, stop, step, flush, dump, status",
		  cli_name(word));
	return -1;
}

static int steer(const struct cli_command *command, char **operand, int format, bool quiet)
{
	struct pfw_spool_header *header;
	int verb = find_verb(command, operand[1]);
	int32_t pid;

	if (verb < 0 || !cli_pid(command, operand[0], &pid))
		return CLI_USAGE;
	header = find(pid);
	if (!header || (kill(pid, 0) < 0 && errno == ESRCH)) {
		cli_error(command->name,
			  "%d: not a traced process of yours: its spool is not in PFW_SPOOL_DIR, "
			  "/dev/shm, TMPDIR or /tmp",
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
	struct ctl ctl = { .format = CLI_TEXT };
	struct cli_args args;
	int status = cli_read(&args, command, argc, argv, &ctl, NULL);

	if (status >= 0)
		return status;
	if (args.operands != 2)
		return cli_error(command->name,
				 "give a process id and what it is to do: pfw ctl PID "
				 "start|stop|step|flush|dump|status");
	return cli_finish(stdout, command, steer(command, argv, ctl.format, ctl.quiet));
}

const struct cli_command cli_ctl = {
	.name = "ctl",
	.operands = "PID start|stop|step|flush|dump|status",
	.summary = "Steer a process that is being traced",
	.details = "start, stop: switch recording, also in child processes that count no steps of\n"
		   "their own.  A schedule stays in force.\n"
		   "step: as pfw_step() in the program, but no hook is called.\n"
		   "flush: write all recorded events to the trace.\n"
		   "dump: with PFW_KEEP, write the events that are kept to a trace.\n",
	.options = options,
	.main = run_ctl,
};
