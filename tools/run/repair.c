/* tools/run/repair.c - finishes the traces that killed processes of earlier runs have left.
 *
 * It runs after the program has ended, which it can neither delay nor disturb, and in a child, so
 * that neither a damaged spool nor a file system that hangs keeps us from returning the program's
 * status.  The child may be killed at any point: the next run begins again.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/settings/kinds.h"
#include "run/run.h"
#include "share/adopt.h"
#include "store/sys/open.h"
#include "ui/cli.h"

#define BEGIN_MAX_NS 1000000000ll /* no spool is begun later than this */
#define WAIT_MAX_NS 10000000000ll /* the child is killed after this */
#define SAID_EACH 3u		  /* as many get a line each */

struct rest {
	const struct run *run;
	int64_t start_ns;
	uint64_t repaired, events, unsaid; /* spools, their events, spools without a line */
	uint64_t staying;		   /* spools that cannot be repaired, for the first time */
	bool more;
};

/* "python3 (pid 123, since 2026-11-22 10:11:12)" */
static void name_process(char *out, size_t size, const struct pfw_recovery *result)
{
	time_t start = (time_t)(result->start_ns / 1000000000);
	char since[32] = "?";
	struct tm local;

	if (localtime_r(&start, &local))
		strftime(since, sizeof(since), "%Y-%m-%d %H:%M:%S", &local);
	snprintf(out, size, "%s (pid %d, since %s)",
		 result->program[0] ? cli_name(result->program) : "a process", result->pid, since);
}

static void say_repaired(struct rest *rest, const struct pfw_recovery *result)
{
	char process[160], lost[64] = "";

	rest->repaired++;
	rest->events += result->recovered;
	if (rest->repaired > SAID_EACH) {
		rest->unsaid++;
		return;
	}
	name_process(process, sizeof(process), result);
	if (result->lost)
		snprintf(lost, sizeof(lost), ", %s lost", cli_count(result->lost));
	cli_error(NULL, "repaired %s of %s, which was killed: %s event%s recovered%s",
		  cli_name(result->trace), process, cli_count(result->recovered),
		  cli_plural(result->recovered), lost);
}

/* A spool that cannot be repaired stays.  One message reports it: the spool becomes executable as a mark. */
static void say_stays(struct rest *rest, const char *spool, const struct pfw_recovery *result)
{
	struct stat st;
	int fd = pfw_open_file(spool, PFW_OPEN_MINE, &st);
	char process[160];

	if (fd >= 0 && !(st.st_mode & S_IXUSR) && !fchmod(fd, (st.st_mode & 0777) | S_IXUSR) &&
	    ++rest->staying <= SAID_EACH) {
		name_process(process, sizeof(process), result);
		cli_error(NULL, "the last events of %s, which was killed, stay in %s: %s", process,
			  cli_name(spool), result->why);
	}
	if (fd >= 0)
		close(fd);
}

static int repair_one(const char *spool, void *user)
{
	struct rest *rest = user;
	struct pfw_recovery result;

	if (!pfw_recover_is_dead(spool))
		return 0;
	if (run_now_ns() - rest->start_ns > BEGIN_MAX_NS) {
		rest->more = true;
		return 1;
	}
	pfw_recover_spool(spool, NULL, &result);
	if (result.taken)
		return 1; /* another `pfw run` is at it: all of them take spools in one order */
	if (result.status == PFW_RECOVER_DONE && !rest->run->quiet)
		say_repaired(rest, &result);
	/* what this run has left is in its summary */
	if (result.status == PFW_RECOVER_BAD && !rest->run->quiet &&
	    strcmp(result.run, rest->run->id) != 0)
		say_stays(rest, spool, &result);
	return 0;
}

_Noreturn static void repair_all(const struct run *run)
{
	struct rest rest = { .run = run, .start_ns = run_now_ns() };
	struct adopt_dirs dirs;

	signal(SIGINT, SIG_DFL); /* otherwise run_launch() still forwards them */
	signal(SIGTERM, SIG_DFL);
	adopt_dirs_find(&dirs, NULL);
	pfw_recover_find(dirs.dir, NULL, NULL, repair_one, &rest);
	if (rest.unsaid)
		cli_error(NULL,
			  "repaired the traces of %s more killed process%s: %s event%s in all",
			  cli_count(rest.unsaid), rest.unsaid == 1 ? "" : "es",
			  cli_count(rest.events), cli_plural(rest.events));
	if (rest.staying > SAID_EACH)
		cli_error(
			NULL,
			"the last events of %s more killed processes stay: `pfw repair --all` says why",
			cli_count(rest.staying - SAID_EACH));
	if (rest.more && !run->quiet)
		cli_error(NULL,
			  "killed processes have left more: the next `pfw run`, or `pfw repair "
			  "--all`, goes on");
	_exit(0);
}

void run_repair(const struct run *run)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	const char *value = getenv("PFW_REPAIR");
	int64_t start_ns = run_now_ns();
	bool wanted = true;
	pid_t pid;

	if (run->inside || (value && pfw_parse_flag(value, &wanted) == PFW_PARSED && !wanted))
		return;
	pid = fork();
	if (pid == 0)
		repair_all(run);
	while (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0) {
		nanosleep(&pause, NULL);
		if (run_now_ns() - start_ns < WAIT_MAX_NS)
			continue;
		kill(pid, SIGKILL);
		cli_error(NULL, "traces of killed processes could not be repaired in 10 s: `pfw "
				"repair --all` does it");
		break;
	}
}
