/* tools/doctor/profilers.c - checks why a profile is empty or lacks GPU metrics or its backend. */
#include "doctor/doctor.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/settings/config.h"
#include "common/settings/schedule.h"
#include "share/executable.h"
#include "ui/cli.h"
#include "ui/embed.h"

#define LONG_ACTIVE 10 /* steps: more add nothing new, and stacks make the trace large */

/* ---- recording ---- */

static void check_enabled(struct doctor *doctor)
{
	struct pfw_config config;

	pfw_config_read(&config, environ, NULL, NULL);
	if (config.enable)
		doctor_say(doctor, DOCTOR_FINE, "recording", "DFTRACER_ENABLE is on");
	else if (config.enable_set)
		doctor_say(doctor, DOCTOR_WORSE, "recording",
			   "DFTRACER_ENABLE=%s: nothing is recorded, even after pfw_start(); `pfw "
			   "run` or DFTRACER_ENABLE=1 turns recording on",
			   cli_name(getenv("DFTRACER_ENABLE")));
	else
		doctor_say(doctor, DOCTOR_FINE, "recording",
			   "programs record under `pfw run`, with DFTRACER_ENABLE=1, or from "
			   "pfw_start() or a profiler with enabled=True on");
}

/* Say which steps a schedule records, and what stacks would cost. */
static void check_steps(struct doctor *doctor, const struct pfw_schedule *steps)
{
	uint64_t before = (uint64_t)steps->skip_first + steps->wait;

	if (steps->skip_first_wait)
		before = steps->skip_first;
	doctor_say(doctor, DOCTOR_FINE, "schedule",
		   "steps %" PRIu64 " to %" PRIu64 " are recorded first: a program that ends "
		   "before, or makes no steps (step(), pfw_step(), spans of PFW_STEP), leaves "
		   "no trace",
		   before, before + steps->warmup + steps->active - 1);
	if (!steps->warmup)
		doctor_say(doctor, DOCTOR_WORSE, "warm-up", "%s: warmup=1", PFW_SCHEDULE_NO_WARMUP);
	if (steps->active > LONG_ACTIVE)
		doctor_say(doctor, DOCTOR_WORSE, "stacks",
			   "active=%" PRIu64
			   ": with stacks (with_stack=True) each of these steps is slower and its "
			   "trace larger: use active=3 to %d, or with_stack=False",
			   (uint64_t)steps->active, LONG_ACTIVE);
}

void doctor_recording(struct doctor *doctor)
{
	const char *schedule = getenv("PFW_SCHEDULE");
	struct pfw_plan plan = { .kind = PFW_PLAN_ALWAYS };

	check_enabled(doctor);
	if (!schedule || !*schedule)
		return;
	if (!pfw_plan_parse(&plan, schedule))
		doctor_say(doctor, DOCTOR_WRONG, "schedule",
			   "PFW_SCHEDULE=%s is not a schedule, so all steps are recorded: `pfw "
			   "schedule --help`",
			   cli_name(schedule));
	else if (plan.kind == PFW_PLAN_STEPS)
		check_steps(doctor, &plan.steps);
}

/* ---- backends ---- */

/* GPU figures of a section or of PFW_COUNTERS need the driver's library, no Python package. */
static void check_gpu_metrics(struct doctor *doctor)
{
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);

	if (nvml)
		doctor_say(doctor, DOCTOR_FINE, "gpu-metrics", "libnvidia-ml.so.1");
	else
		doctor_say(
			doctor, DOCTOR_WORSE, "gpu-metrics",
			"no libnvidia-ml.so.1, so no GPU utilisation or memory: it comes with the "
			"driver (containers: NVIDIA_DRIVER_CAPABILITIES=compute,utility); pip "
			"install pynvml does not bring it, and is not needed");
}

/* Find the Python that this command was installed with, else the first on the PATH. */
static bool find_python(char path[PATH_MAX])
{
	char self[PATH_MAX];

	return (cli_self(self) &&
		snprintf(path, PATH_MAX, "%.*s/python3", (int)(strrchr(self, '/') - self), self) <
			PATH_MAX &&
		access(path, X_OK) == 0) ||
	       target_find(path, "python3");
}

PFW_EMBED(doctor_profilers, "doctor/profilers.py");

/* Run it; the caller reads its answers from `out` and closes it.  -1 if it cannot be run. */
static pid_t start_python(const char *python, FILE **out)
{
	int ends[2];
	pid_t child;

	if (pipe(ends) < 0)
		return -1;
	child = fork();
	if (child == 0) {
		/* The child must not be traced, nor read the terminal. */
		unsetenv("LD_PRELOAD");
		unsetenv("DFTRACER_ENABLE");
		if (!freopen("/dev/null", "r", stdin) || !freopen("/dev/null", "w", stderr) ||
		    dup2(ends[1], 1) < 0)
			_exit(126);
		close(ends[0]);
		close(ends[1]);
		execl(python, python, "-c", doctor_profilers, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	*out = child > 0 ? fdopen(ends[0], "r") : NULL;
	if (!*out)
		close(ends[0]);
	return child;
}

static unsigned tell_answers(struct doctor *doctor, FILE *out)
{
	char line[2048];
	unsigned told = 0;

	while (fgets(line, sizeof(line), out)) {
		char *rest = line, *verdict = strsep(&rest, "\t"), *name = strsep(&rest, "\t");

		if (!name || !rest || *verdict < '0' || *verdict > '2')
			continue;
		rest[strcspn(rest, "\n")] = '\0';
		/* A missing backend is no error: the others work. */
		doctor_say(doctor, *verdict == '0' ? DOCTOR_FINE : DOCTOR_WORSE, name, "%s",
			   cli_name(rest));
		told++;
	}
	return told;
}

void doctor_backends(struct doctor *doctor)
{
	char python[PATH_MAX];
	FILE *out = NULL;
	unsigned told = 0;
	pid_t child;

	check_gpu_metrics(doctor);
	if (!find_python(python)) {
		doctor_say(doctor, DOCTOR_WORSE, "backends",
			   "no python3 on the PATH: only programs in other languages are recorded");
		return;
	}
	fflush(stdout);
	child = start_python(python, &out);
	if (out) {
		told = tell_answers(doctor, out);
		fclose(out);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
	if (!told)
		doctor_say(doctor, DOCTOR_WORSE, "backends", "%s cannot be run to look for them",
			   cli_name(python));
}
