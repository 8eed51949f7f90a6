/* tools/doctor/doctor.c - `pfw doctor`: what keeps programs from being traced here, and cures. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/format/clock.h"
#include "common/format/gzip.h"
#include "doctor/doctor.h"
#include "share/adopt.h"
#include "share/executable.h"
#include "ui/cli.h"
#include "ui/fit.h"

#define TEXT_COLUMN 19

/* Print one finding: in a line for programs, in the terminal's lines for people.  DOCTOR_WRONG
 * makes the exit status 1. */
void doctor_say(struct doctor *doctor, enum doctor_verdict verdict, const char *what,
		const char *format, ...)
{
	static const char *const marks[] = { "ok   ", "note ", "WRONG" };
	static const enum cli_style styles[] = { CLI_GREEN, CLI_YELLOW, CLI_RED };
	char text[4 * PATH_MAX];
	va_list values;

	printf("%s%s%s %-12s ", cli_style(doctor->colours, styles[verdict]), marks[verdict],
	       cli_style(doctor->colours, CLI_PLAIN), what);
	va_start(values, format);
	vsnprintf(text, sizeof(text), format, values);
	va_end(values);
	fit_words(stdout, TEXT_COLUMN, TEXT_COLUMN, "%s", text);
	if (verdict == DOCTOR_WRONG)
		doctor->status = CLI_PROBLEMS;
}

static void check_preload(struct doctor *doctor)
{
	char path[PATH_MAX], recorder[PATH_MAX + 16];

	if (!cli_find_preload(path, sizeof(path))) {
		doctor_say(doctor, DOCTOR_WRONG, "preload",
			   "libpfw_preload.so is neither in ../lib beside pfw nor in /usr/lib or "
			   "/usr/local/lib");
		return;
	}
	doctor_say(doctor, DOCTOR_FINE, "preload", "%s", cli_name(path));
	snprintf(recorder, sizeof(recorder), "%.*slibpfw.so.1",
		 (int)(strrchr(path, '/') + 1 - path), path);
	if (access(recorder, R_OK) == 0)
		doctor_say(doctor, DOCTOR_FINE, "recorder", "%s", cli_name(recorder));
	else
		doctor_say(doctor, DOCTOR_WRONG, "recorder",
			   "%s is missing: install libpfw.so.1 beside libpfw_preload.so",
			   cli_name(recorder));
}

static void check_gzip(struct doctor *doctor)
{
	struct pfw_gzip *gzip;
	const char *library;

	if (pfw_gzip_open(&gzip) != 0) {
		doctor_say(doctor, DOCTOR_WORSE, "compression",
			   "neither ISA-L nor zlib can be loaded: no .pfw.gz (install libisal2)");
		return;
	}
	library = pfw_gzip_library(gzip);
	if (strncmp(library, "ISA-L", 5) == 0)
		doctor_say(doctor, DOCTOR_FINE, "compression", "%s", library);
	else
		doctor_say(doctor, DOCTOR_WORSE, "compression",
			   "%s; ISA-L takes a quarter of its time "
			   "(install libisal2)",
			   library);
	pfw_gzip_close(gzip);
}

static void check_clock(struct doctor *doctor)
{
	pfw_clock_init();
	if (pfw_clock_is_counter)
		doctor_say(doctor, DOCTOR_FINE, "clock",
			   "%s, as the kernel keeps time (10 ns a reading)", pfw_clock_name());
	else
		doctor_say(doctor, DOCTOR_WORSE, "clock",
			   "CLOCK_MONOTONIC: the kernel's clocksource is not " PFW_CLOCK_SOURCE
			   " (23 ns a reading)");
}

static void check_directory(struct doctor *doctor, const char *what, const char *path,
			    enum doctor_verdict otherwise)
{
	struct statvfs fs;

	if (access(path, W_OK | X_OK) < 0 || statvfs(path, &fs) < 0)
		doctor_say(doctor, otherwise, what, "%s: %s", cli_name(path), strerror(errno));
	else if ((uint64_t)fs.f_bavail * fs.f_frsize < 64u << 20)
		doctor_say(doctor, DOCTOR_WORSE, what, "%s: only %s free", cli_name(path),
			   cli_bytes((uint64_t)fs.f_bavail * fs.f_frsize));
	else
		doctor_say(doctor, DOCTOR_FINE, what, "%s, %s free", cli_name(path),
			   cli_bytes((uint64_t)fs.f_bavail * fs.f_frsize));
}

/* The first directory that takes a spool is used, so only a chosen one can be wrong. */
static void check_spool_dir(struct doctor *doctor)
{
	const char *chosen = getenv("PFW_SPOOL_DIR");

	if (chosen && *chosen)
		check_directory(doctor, "spools", chosen, DOCTOR_WRONG);
	else
		check_directory(doctor, "spools", "/dev/shm", DOCTOR_WORSE);
}

static void check_log_dir(struct doctor *doctor)
{
	const char *base = getenv("DFTRACER_LOG_FILE");
	const char *slash = base ? strrchr(base, '/') : NULL;
	char path[PATH_MAX] = ".";

	if (slash)
		snprintf(path, sizeof(path), "%.*s", (int)(slash - base + (slash == base)), base);
	check_directory(doctor, "traces", path, DOCTOR_WRONG);
}

static int count_spool(const char *spool, void *user)
{
	struct doctor *doctor = user;
	struct stat st;

	doctor->spools += stat(spool, &st) == 0 && st.st_uid == geteuid();
	return 0;
}

static void check_left_over(struct doctor *doctor)
{
	struct adopt_dirs dirs;

	adopt_dirs_find(&dirs, NULL);
	pfw_recover_find(dirs.dir, NULL, NULL, count_spool, doctor);
	if (doctor->spools)
		doctor_say(
			doctor, DOCTOR_WORSE, "spools left",
			"%s of running or killed processes: `pfw repair --all` finishes the killed ones' "
			"traces",
			cli_count(doctor->spools));
	else
		doctor_say(doctor, DOCTOR_FINE, "spools left", "none");
}

/* Open a library and find its file as the dynamic linker does; NULL: *error is what it says. */
static void *open_library(const char *name, const char **path, const char **error)
{
	void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
	struct link_map *map = NULL;

	*path = name;
	*error = library ? NULL : dlerror();
	if (library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && *map->l_name)
		*path = map->l_name;
	return library;
}

/* Ask the driver for its version.  CUPTI is not called: some versions crash without a driver. */
static bool check_driver(struct doctor *doctor, int *version)
{
	int (*init)(unsigned), (*count)(int *), (*get_version)(int *), devices = 0, error;
	const char *path, *why;
	void *cuda = open_library("libcuda.so.1", &path, &why);

	if (!cuda) {
		doctor_say(doctor, DOCTOR_FINE, "gpu",
			   "no libcuda.so.1: no GPU work to record here (with an NVIDIA "
			   "GPU: install its driver, or run containers with --gpus all)");
		return false;
	}
	*(void **)&init = dlsym(cuda, "cuInit");
	*(void **)&count = dlsym(cuda, "cuDeviceGetCount");
	*(void **)&get_version = dlsym(cuda, "cuDriverGetVersion");
	error = init && count && get_version ? init(0) : 34;
	error = error ?: count(&devices);
	if (error == 34)
		doctor_say(doctor, DOCTOR_WORSE, "gpu",
			   "%s is CUDA's stub, not a driver: take its directory out of "
			   "LD_LIBRARY_PATH, or install the driver",
			   cli_name(path));
	else if (error == 100 || (!error && devices < 1))
		doctor_say(doctor, DOCTOR_WORSE, "gpu",
			   "%s finds no device (CUDA_VISIBLE_DEVICES? /dev/nvidia*?)",
			   cli_name(path));
	else if (error)
		doctor_say(doctor, DOCTOR_WORSE, "gpu",
			   "%s: cuInit says %d (driver and kernel module of different "
			   "versions? see dmesg)",
			   cli_name(path), error);
	if (error || devices < 1)
		return false;
	get_version(version);
	doctor_say(doctor, DOCTOR_FINE, "gpu", "%d device%s, driver of CUDA %d.%d", devices,
		   devices == 1 ? "" : "s", *version / 1000, *version % 1000 / 10);
	return true;
}

/* The kernel module's parameters say whether only administrators may profile. */
static void check_privileges(struct doctor *doctor)
{
	char line[256];
	bool restricted = false;
	FILE *file = fopen("/proc/driver/nvidia/params", "r");

	while (file && fgets(line, sizeof(line), file))
		restricted |= strcmp(line, "RmProfilingAdminOnly: 1\n") == 0;
	if (file)
		fclose(file);
	if (restricted && geteuid() != 0)
		doctor_say(
			doctor, DOCTOR_WORSE, "gpu rights",
			"the driver allows only administrators to profile; if kernels are missing: "
			"NVreg_RestrictProfilingToAdminUsers=0, or --cap-add=SYS_ADMIN");
}

static void check_cupti(struct doctor *doctor, int version)
{
	const char *chosen = getenv("PFW_CUPTI_LIB"), *path, *why;
	char name[32];
	void *library = NULL;

	if (chosen && *chosen) {
		library = open_library(chosen, &path, &why);
		if (!library)
			doctor_say(doctor, DOCTOR_WRONG, "cupti", "PFW_CUPTI_LIB: %s", why);
	}
	for (int major = version / 1000; !library && !(chosen && *chosen) && major >= 12; major--) {
		snprintf(name, sizeof(name), "libcupti.so.%d", major);
		library = open_library(name, &path, &why);
	}
	if (library)
		doctor_say(doctor, DOCTOR_FINE, "cupti", "%s", cli_name(path));
	else if (!chosen || !*chosen)
		doctor_say(doctor, DOCTOR_WORSE, "cupti",
			   "the dynamic linker finds no libcupti: GPU work is recorded only in "
			   "programs that bring one (PyTorch does); for others: pip install "
			   "nvidia-cuda-cupti, and set PFW_CUPTI_LIB");
}

static void check_gpu(struct doctor *doctor)
{
	const char *injection = getenv("CUDA_INJECTION64_PATH");
	const char *schedule = getenv("PFW_SCHEDULE");
	bool ranges = schedule && strcmp(schedule, "range") == 0;
	int version = 0;

	if (!check_driver(doctor, &version)) {
		if (ranges)
			doctor_say(doctor, DOCTOR_WRONG, "schedule",
				   "PFW_SCHEDULE=range records between cudaProfilerStart() and "
				   "cudaProfilerStop(): nothing without CUDA");
		return;
	}
	if (ranges)
		doctor_say(
			doctor, DOCTOR_FINE, "schedule",
			"between cudaProfilerStart() and cudaProfilerStop(), where the program brings "
			"CUPTI or it is below");
	check_cupti(doctor, version);
	check_privileges(doctor);
	if (injection && *injection && !strstr(injection, "libpfw"))
		doctor_say(doctor, DOCTOR_WORSE, "injection",
			   "CUDA_INJECTION64_PATH=%s belongs to another tool: kernels are recorded "
			   "only if PFW_CUPTI=1 is set or the program calls pfw_start()",
			   cli_name(injection));
}

static void check_program(struct doctor *doctor, const char *program)
{
	struct target target;

	target_look(&target, program);
	if (target.state == TARGET_TRACEABLE)
		doctor_say(doctor, DOCTOR_FINE, "program", "%s can be traced",
			   cli_name(target.path));
	else
		doctor_say(doctor, DOCTOR_WRONG, "program", "%s", target.why);
}

static const struct cli_option options[] = { { 0 } };

static int doctor_main(const struct cli_command *command, int argc, char **argv)
{
	struct doctor doctor = { .colours = cli_colours(stdout) };
	struct cli_args args;
	int status = cli_read(&args, command, argc, argv, NULL, NULL);

	if (status >= 0)
		return status;
	check_preload(&doctor);
	check_gzip(&doctor);
	check_clock(&doctor);
	check_spool_dir(&doctor);
	check_log_dir(&doctor);
	check_left_over(&doctor);
	check_gpu(&doctor);
	doctor_recording(&doctor);
	doctor_backends(&doctor);
	if (argc > args.next)
		check_program(&doctor, argv[args.next]);
	return cli_finish(stdout, command, doctor.status);
}

const struct cli_command cli_doctor = {
	.name = "doctor",
	.operands = "[PROGRAM]",
	.summary = "Report what prevents tracing on this machine, and the remedy",
	.options = options,
	.stops = true,
	.main = doctor_main,
	.details = "With PROGRAM: also whether that program can be traced.  It cannot if it is\n"
		   "linked statically, set-user-ID, or built for another kind of machine.\n"
		   "The line `schedule` checks $PFW_SCHEDULE.  The line `backends` checks what\n"
		   "profilers of Python need, in the Python of the pfw command, else in python3.\n"
		   "exit status: 0 fine, 1 something is wrong\n",
};
