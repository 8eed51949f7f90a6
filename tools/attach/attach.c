/* tools/attach/attach.c - `pfw attach` and `pfw detach`: record a process that is running already. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attach/inject.h"
#include "attach/tracee.h"
#include "common/base/text.h"
#include "common/base/units.h"
#include "common/format/clock.h"
#include "common/settings/naming.h"
#include "ui/cli.h"
#include "ui/host.h"
#include "ui/interrupt.h"

/* ---- a session of its own ---- */

struct wish;

static volatile pid_t worker;

static void pass_on(int number)
{
	int error = errno;

	kill(worker, number);
	errno = error;
}

static int await(pid_t child)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action = { .sa_handler = pass_on, .sa_flags = SA_RESTART }, old;
	int status = 0;

	sigemptyset(&action.sa_mask);
	worker = child;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return EXIT_FAILURE;
}

/*
 * Call run(wish) in a child that has a session of its own, and return what that returns.  Linux shares the
 * processor among sessions (autogroup), so on a busy machine this one gets it in time, as a rule.
 * Signals that end the command are passed on; if this process is killed, so is the child.
 */
static int session_run(const struct wish *wish, int (*run)(const struct wish *wish))
{
	pid_t parent = getpid(), child = cli_host ? -1 : fork();

	if (child > 0)
		return await(child);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(EXIT_FAILURE);
		setsid();
	}
	return run(wish);
}

extern char **environ;

#define RECORDER "libpfw.so.1"
#define TRACE_MAX (PATH_MAX + 32) /* with the name of its process's root before it */
#define STAYS_MAX sizeof(((struct pfw_attach_block *)0)->stays)

/* What the user wants. */
struct wish {
	const struct cli_command *command;
	pid_t pid;
	const char *output;
	uint64_t for_ns;
	bool gzip, all, children, verbose, quiet;
};

static const struct cli_option attach_options[] = {
	{ "output", 'o', "BASE",
	  "name of the trace, without .pfw; default: the program's name here",
	  CLI_INTO(struct wish, output) },
	{ "gzip", 'z', NULL, "write .pfw.gz", CLI_INTO(struct wish, gzip) },
	{ "for", 0, "TIME", "record for that long, then detach; Ctrl-C ends it earlier",
	  .id = 256 },
	{ "all", 0, NULL, "trace I/O on every file", CLI_INTO(struct wish, all) },
	{ "children", 0, NULL, "also record the processes that PID starts from now on",
	  CLI_INTO(struct wish, children) },
	{ "verbose", 'v', NULL, "print for how long a thread of the process was stopped",
	  CLI_INTO(struct wish, verbose) },
	{ "quiet", 'q', NULL, "print problems only", CLI_INTO(struct wish, quiet) },
	{ 0 },
};

static const struct cli_option detach_options[] = {
	{ "verbose", 'v', NULL,
	  "print for how long a thread was stopped, and what stays in the process",
	  CLI_INTO(struct wish, verbose) },
	{ "quiet", 'q', NULL, "print problems only", CLI_INTO(struct wish, quiet) },
	{ 0 },
};

static int refuse(const struct wish *wish, const char *why)
{
	cli_error(wish->command->name, "%d: %s", (int)wish->pid, why);
	return CLI_PROBLEMS;
}

#if defined(__x86_64__)

/* ---- the variables of the process ---- */

struct list {
	char *text;
	size_t used, size;
	bool cut;
};

/* Whether the list has an entry of the same name. */
static bool has(const struct list *list, const char *entry)
{
	size_t name = strcspn(entry, "=") + 1;

	for (const char *at = list->text; at < list->text + list->used; at += strlen(at) + 1)
		if (!strncmp(at, entry, name))
			return true;
	return false;
}

/* Of entries with one name the first one stays. */
static void add(struct list *list, const char *entry)
{
	size_t bytes = strlen(entry) + 1;

	if (has(list, entry))
		return;
	/* The last byte is the empty entry at the end. */
	if (list->used + bytes + 1 > list->size) {
		list->cut = true;
		return;
	}
	memcpy(list->text + list->used, entry, bytes);
	list->used += bytes;
}

__attribute__((format(printf, 2, 3))) static void add_set(struct list *list, const char *format,
							  ...)
{
	char entry[2 * PATH_MAX];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(entry, sizeof(entry), format, arguments);
	va_end(arguments);
	add(list, entry);
}

static bool is_ours(const char *entry)
{
	return !strncmp(entry, "DFTRACER_", 9) || !strncmp(entry, "PFW_", 4);
}

/* The process's own variables, which name its rank.  pfw's variables come from this command. */
static void add_environment(struct list *list, const struct tracee *tracee)
{
	char *text = tracee_environment(tracee, list->size);

	for (const char *at = text; at && *at; at += strlen(at) + 1)
		if (strchr(at, '=') && !is_ours(at))
			add(list, at);
	free(text);
	for (char **at = environ; *at; at++)
		if (is_ours(*at))
			add(list, *at);
}

/* The trace's name: as the user gave it, else the program's; here, or where a process that does not see
 * our files is. */
static void add_name(struct list *list, const struct wish *wish, const struct tracee *tracee)
{
	char here[PATH_MAX] = "", doubled[PATH_MAX], name[64] = "program";
	struct pfw_text text;

	if (!getcwd(here, sizeof(here)))
		here[0] = '\0';
	pfw_text_init(&text, doubled, sizeof(doubled));
	pfw_name_add_path(&text, here);
	tracee_status(wish->pid, wish->pid, "Name", name, sizeof(name));
	for (char *at = name; *at; at++)
		*at = *at == '/' || *at == '%' || *at == ' ' || *at == ':' ? '_' : *at;
	if (tracee->apart || (wish->output && wish->output[0] == '/'))
		add_set(list, "DFTRACER_LOG_FILE=%s", wish->output ? wish->output : name);
	else
		add_set(list, "DFTRACER_LOG_FILE=%s/%s", doubled,
			wish->output ? wish->output : name);
}

static bool set_variables(struct pfw_attach_block *block, const struct wish *wish,
			  const struct tracee *tracee, const char *preload)
{
	struct list list = { block->variables, 0, sizeof(block->variables), false };

	add_name(&list, wish, tracee);
	add(&list, "DFTRACER_ENABLE=1");
	add(&list, "DFTRACER_INIT=PRELOAD"); /* for programs that it starts */
	if (wish->output)
		add(&list, "PFW_KEEP_NAME=1");
	if (wish->gzip)
		add(&list, "DFTRACER_TRACE_COMPRESSION=1");
	if (wish->all)
		add(&list, "DFTRACER_DATA_DIR=all");
	if (wish->children) {
		add_set(&list, "LD_PRELOAD=%s", preload);
		add(&list, "PFW_FOLLOW=1");
	} else {
		add(&list, "PFW_CHILDREN=none");
	}
	add_environment(&list, tracee);
	return !list.cut;
}

/* ---- attaching ---- */

/* The recorder beside the preload object. */
static const char *find_recorder(char *preload, char *recorder)
{
	if (!cli_find_preload(preload, PATH_MAX))
		return "libpfw_preload.so and libpfw.so.1 are neither in ../lib beside pfw nor in "
		       "/usr/lib or /usr/local/lib: install them there, or build them";
	snprintf(recorder, PATH_MAX, "%.*s/" RECORDER, (int)(strrchr(preload, '/') - preload),
		 preload);
	if (access(recorder, R_OK) < 0)
		return "libpfw.so.1 is not beside libpfw_preload.so: install both";
	return NULL;
}

/* Whether the process sees another file, or none, under this name. */
static bool is_apart(const struct wish *wish, const char *recorder)
{
	char there[PATH_MAX + 64];
	struct stat here, seen;

	snprintf(there, sizeof(there), "/proc/%d/root%s", (int)wish->pid, recorder);
	return stat(recorder, &here) < 0 || stat(there, &seen) < 0 || here.st_dev != seen.st_dev ||
	       here.st_ino != seen.st_ino;
}

/* One line for each message of the recorder. */
static void print_said(const struct wish *wish, struct pfw_attach_block *block)
{
	char *rest = block->said;

	block->said[sizeof(block->said) - 1] = '\0';
	for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n"))
		if (*line)
			cli_error(wish->command->name, "%d: %s", (int)wish->pid, line);
}

/* Name the recorder as the process sees it.  Once loaded it is found by its own name, so that there is
 * never a second one. */
static int place_recorder(const struct wish *wish, struct tracee *tracee,
			  struct pfw_attach_block *block, const char *recorder,
			  struct carried *carried)
{
	bool loaded = tracee_has(tracee, RECORDER);

	snprintf(block->library, sizeof(block->library), "%s", loaded ? RECORDER : recorder);
	if (wish->children && tracee->apart)
		return tracee_refuse(
			tracee,
			"--children: the process does not see the files of this host "
			"(a container, a chroot): install pfw there, and run this command there");
	if (!loaded && block->wish == PFW_ATTACH_END) {
		inject_clear(tracee);
		return tracee_refuse(tracee, "it is not recorded");
	}
	if (loaded || !tracee->apart)
		return 0;
	if (carry_in(carried, tracee, recorder))
		return -1;
	snprintf(block->library, sizeof(block->library), "%s", carried->inside);
	return 0;
}

static int ask(const struct wish *wish, struct tracee *tracee, struct pfw_attach_block *block)
{
	struct carried carried = { .directory = -1 };
	char preload[PATH_MAX], recorder[PATH_MAX];
	const char *why = find_recorder(preload, recorder);
	int error;

	if (why)
		return refuse(wish, why);
	tracee->apart = is_apart(wish, recorder);
	if (!set_variables(block, wish, tracee, preload))
		return refuse(wish, "its environment is larger than 128 KiB");
	/* Once more if it is unloaded because it had failed before. */
	for (int tries = 0; tries < 2; tries++) {
		block->said[0] = block->stays[0] = '\0';
		block->leaves = false;
		error = place_recorder(wish, tracee, block, recorder, &carried) ||
			inject(tracee, block);
		carry_out(&carried);
		if (error)
			return refuse(wish, tracee->why);
		print_said(wish, block);
		if (block->error != -ESTALE || block->stays[0] || tracee_read_maps(tracee))
			break;
	}
	block->trace[sizeof(block->trace) - 1] = '\0';
	return CLI_OK;
}

static int say_error(const struct wish *wish, const struct pfw_attach_block *block)
{
	switch (-block->error) {
	case ECHILD:
		return refuse(wish, "it was forked from a process that was recorded, and is not "
				    "recorded itself: that takes `pfw attach --children` there");
	case EALREADY:
		cli_error(wish->command->name,
			  "%d: it is recorded already, in %s: `pfw ctl %d` steers it",
			  (int)wish->pid, cli_name(block->trace), (int)wish->pid);
		return CLI_PROBLEMS;
	case ESRCH:
		return refuse(wish, !block->leaves    ? "it is not recorded"
				    : block->stays[0] ? "it is not recorded any more; the recorder "
							"still stays loaded, unused"
						      : "it is not recorded any more; the recorder "
							"is unloaded now");
	case ECANCELED:
		if (!block->said[0])
			cli_error(
				wish->command->name,
				"%d: it is not recorded: its variables, PFW_RANKS or PFW_CHILDREN "
				"say so, or it has said why on its standard error (may it make "
				"files where -o leads?)",
				(int)wish->pid);
		return CLI_PROBLEMS;
	case EPROTO:
		return refuse(wish, "its recorder is of another version than this command");
	case ESTALE:
		cli_error(wish->command->name,
			  "%d: its recorder has failed before, and cannot be unloaded: %s",
			  (int)wish->pid, block->stays);
		return CLI_PROBLEMS;
	default:
		if (!block->said[0])
			return refuse(wish, strerror(-block->error));
		return CLI_PROBLEMS;
	}
}

static void print_stops(const struct wish *wish, const struct tracee *tracee)
{
	printf("%d: %u stops of a thread, the longest of %.3f ms\n", (int)wish->pid, tracee->stops,
	       (double)tracee->longest_stop_ns / 1e6);
}

/* What stays in the process though the recorder has gone. */
static void print_left(const struct wish *wish, const struct tracee *tracee,
		       const struct pfw_attach_block *block)
{
	if (block->jumps)
		printf("%d: %u jumps of 8 bytes stay %s, for addresses of calls that it may have "
		       "copied\n",
		       (int)wish->pid, block->jumps,
		       block->jumps_mapped ? "in two pages of their own"
					   : "in unused bytes of its libraries");
	if (!tracee->lends)
		printf("%d: its dynamic linker is not known: what its allocator has set up for one "
		       "thread more stays\n",
		       (int)wish->pid);
}

/* Begin or end the recording of the process. */
static int change(const struct wish *wish, enum pfw_attach_wish what, char trace[TRACE_MAX],
		  char stays[STAYS_MAX])
{
	struct pfw_attach_block *block = calloc(1, sizeof(*block));
	struct tracee tracee;
	char root[32];
	int status;

	if (!block)
		return refuse(wish, strerror(ENOMEM));
	block->wish = what;
	if (tracee_open(&tracee, wish->pid))
		status = refuse(wish, tracee.why);
	else
		status = ask(wish, &tracee, block);
	if (wish->verbose && tracee.stops)
		print_stops(wish, &tracee);
	if (wish->verbose && status == CLI_OK && !block->error && what == PFW_ATTACH_END)
		print_left(wish, &tracee, block);
	if (status == CLI_OK && block->error)
		status = say_error(wish, block);
	root[0] = '\0';
	if (tracee.apart)
		snprintf(root, sizeof(root), "/proc/%d/root", (int)wish->pid);
	snprintf(trace, TRACE_MAX, "%s%s", root, block->trace);
	snprintf(stays, STAYS_MAX, "%s", block->stays);
	tracee_close(&tracee);
	free(block);
	return status;
}

#else

static int change(const struct wish *wish, enum pfw_attach_wish what, char trace[TRACE_MAX],
		  char stays[STAYS_MAX])
{
	(void)what;
	trace[0] = stays[0] = '\0';
	return refuse(wish,
		      "there is no code for this processor: start the program with `pfw run`");
}

#endif

static int detach(const struct wish *wish)
{
	char trace[TRACE_MAX], stays[STAYS_MAX] = "";
	int status = change(wish, PFW_ATTACH_END, trace, stays);

	if (status == CLI_OK && !wish->quiet)
		printf("%d: detached; the trace is %s\n", (int)wish->pid, cli_name(trace));
	if (status == CLI_OK && !wish->quiet && stays[0])
		printf("%d: the recorder stays loaded, unused: %s\n", (int)wish->pid, stays);
	return status;
}

/* Until the time is over, a signal comes, or the process ends.  False: it has ended. */
static bool wait_for(const struct wish *wish)
{
	const _Atomic bool *stopped = stop_watch();
	const struct timespec pause = { .tv_nsec = 20000000 };
	uint64_t begin = pfw_clock_ns(CLOCK_MONOTONIC);

	do {
		nanosleep(&pause, NULL);
		if (kill(wish->pid, 0) < 0 && errno == ESRCH)
			return false;
	} while (!*stopped && pfw_clock_ns(CLOCK_MONOTONIC) - begin < wish->for_ns);
	return true;
}

static int attach(const struct wish *wish)
{
	char trace[TRACE_MAX], stays[STAYS_MAX];
	int status = change(wish, PFW_ATTACH_BEGIN, trace, stays);

	if (status != CLI_OK)
		return status;
	if (!wish->for_ns) {
		if (!wish->quiet)
			printf("%d: recording into %s; `pfw detach %d` ends it\n", (int)wish->pid,
			       cli_name(trace), (int)wish->pid);
		return CLI_OK;
	}
	fflush(stdout);
	if (wait_for(wish))
		return detach(wish);
	if (!wish->quiet)
		printf("%d: has ended; the trace is %s\n", (int)wish->pid, cli_name(trace));
	return CLI_OK;
}

/* ---- the commands ---- */

static int take_for(void *user, const struct cli_args *args, int option)
{
	struct wish *wish = user;

	(void)option;
	if (pfw_units_ns(args->value, strlen(args->value), &wish->for_ns) && wish->for_ns)
		return 0;
	cli_error(args->command->name, "--for %s: wants a time, as 30s (" PFW_UNITS_OF_TIME ")",
		  cli_name(args->value));
	return -1;
}

static int attach_main(const struct cli_command *command, int argc, char **argv)
{
	struct wish wish = { .command = command };
	struct cli_args args;
	int status = cli_read(&args, command, argc, argv, &wish, take_for);
	int32_t pid;

	if (status >= 0)
		return status;
	if (args.operands != 1)
		return cli_error(command->name, "give one process id: pfw %s PID", command->name);
	if (!cli_pid(command, argv[0], &pid))
		return CLI_USAGE;
	wish.pid = pid;
	status = session_run(&wish, command == &cli_attach ? attach : detach);
	return cli_finish(stdout, command, status);
}

const struct cli_command cli_attach = {
	.name = "attach",
	.operands = "PID",
	.summary = "Record a process that is running already",
	.details = "The recorder is loaded into the process, which goes on meanwhile.\n"
		   "The variables of pfw (PFW_CALLS and so on) are those of this command.\n"
		   "See also: pfw detach, pfw ctl, pfw top.\n",
	.options = attach_options,
	.main = attach_main,
};

const struct cli_command cli_detach = {
	.name = "detach",
	.operands = "PID",
	.summary = "End the recording that `pfw attach` began",
	.details = "Afterwards the trace is complete, and the recorder is unloaded.  If the\n"
		   "recorder has to stay loaded, unused, a line says why.\n",
	.options = detach_options,
	.main = attach_main,
};
