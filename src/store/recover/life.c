/* store/recover/life.c - whether a trace may still be written; see owner.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/format/clock.h"
#include "common/settings/process.h"
#include "store/line/args.h"
#include "store/read/blocks.h"
#include "store/read/scan.h"
#include "store/recover/image.h"
#include "store/recover/owner.h"
#include "store/sys/open.h"
#include "store/sys/proc.h"
#include "store/traces/ends.h"

/* ---- the first line ---- */

static void take_text(const struct pfw_entry *entry, const char *key, char *out, size_t size)
{
	struct pfw_slice text;

	if (!pfw_arg_text(entry, key, &text) || !pfw_slice_decode(&text, out, size))
		*out = '\0';
}

static void take_claim(struct pfw_claim *claim, const struct pfw_entry *entry)
{
	struct pfw_value value;

	claim->ours = true;
	claim->pid = entry->pid;
	claim->start_ns = pfw_arg_ns(entry, "start_ts", -1);
	claim->no_spool = pfw_slice_find(&entry->args, "spool", &value) &&
			  value.type == PFW_VALUE_NULL;
	take_text(entry, "host", claim->host, sizeof(claim->host));
	take_text(entry, "boot", claim->boot, sizeof(claim->boot));
	take_text(entry, "spool", claim->spool, sizeof(claim->spool));
	if (*claim->spool != '/')
		*claim->spool = '\0';
}

int pfw_claim_read(struct pfw_claim *claim, const char *path)
{
	struct pfw_scan scan;
	int error = pfw_scan_open(&scan, path);

	memset(claim, 0, sizeof(*claim));
	if (error)
		return error;
	if (pfw_scan_next(&scan) == PFW_SCAN_LINE && !scan.unterminated) {
		claim->any = true;
		if (pfw_scan_is(&scan, "process"))
			take_claim(claim, &scan.entry);
	}
	pfw_scan_close(&scan);
	return 0;
}

/* ---- the spool ---- */

/* Ask the spool that the trace names, if it is still there and of this process. */
static bool ask_spool(const struct pfw_claim *claim, enum pfw_life *life, char *why, size_t size)
{
	char reason[PFW_SPOOL_WHY_BYTES];
	struct pfw_spool_image image;
	struct stat st;
	int fd = *claim->spool ? pfw_open_file(claim->spool, 0, &st) : -1;
	bool known = false;

	if (fd < 0)
		return false;
	if (!pfw_spool_image_header(&image, fd, reason) &&
	    (uint64_t)image.header->pid == claim->pid &&
	    (int64_t)image.header->start_ns == claim->start_ns &&
	    pfw_spool_is_of_here(image.header, reason, sizeof(reason))) {
		known = true;
		*life = pfw_spool_process_lives(fd, image.header) ? PFW_LIFE_ALIVE : PFW_LIFE_DEAD;
		if (*life == PFW_LIFE_ALIVE)
			snprintf(why, size, "its process %" PRIu64 " runs", claim->pid);
	}
	pfw_spool_image_release(&image);
	close(fd);
	return known;
}

/* ---- the pid ---- */

/* Whether a process began before the recorder did, so that it may be the trace's. */
static bool began_before(const struct pfw_process *process, int64_t start_ns)
{
	int64_t booted_ns =
		(int64_t)pfw_clock_ns(CLOCK_REALTIME) - (int64_t)pfw_clock_ns(CLOCK_BOOTTIME);
	int64_t began_ns = booted_ns + (int64_t)(process->start_time *
						 (1000000000ull / (uint64_t)sysconf(_SC_CLK_TCK)));

	/* The clock may have been set since, by NTP usually by less than this. */
	return began_ns - 5000000000ll <= start_ns;
}

/* Without a spool only host, boot and pid are left. */
static enum pfw_life ask_pid(const struct pfw_claim *claim, char *why, size_t size)
{
	struct pfw_process process;
	char here[72], boot[40];

	pfw_proc_host(here, sizeof(here));
	pfw_proc_boot_id(boot, sizeof(boot));
	if (strcmp(here, claim->host) != 0) {
		snprintf(why, size,
			 "not finished by process %" PRIu64 " of host %s, which cannot be seen "
			 "from %s",
			 claim->pid, claim->host, here);
		return PFW_LIFE_UNKNOWN;
	}
	if (*claim->boot && *boot && strcmp(boot, claim->boot) != 0)
		return PFW_LIFE_DEAD;
	if (claim->pid <= INT32_MAX && !pfw_process_read(&process, (pid_t)claim->pid) &&
	    pfw_proc_alive(process.pid, process.start_time) &&
	    began_before(&process, claim->start_ns)) {
		snprintf(why, size, "its process %" PRIu64 " runs", claim->pid);
		return PFW_LIFE_ALIVE;
	}
	/* From here on a process of that pid could only be in another pid namespace. */
	if (claim->pid <= INT32_MAX && pfw_proc_alive_inside((pid_t)claim->pid, 0, 0)) {
		snprintf(why, size,
			 "not finished, and a process %" PRIu64 " runs in a container here",
			 claim->pid);
		return PFW_LIFE_UNKNOWN;
	}
	if (pfw_proc_namespace() == PFW_PROC_NAMESPACE_ALL)
		return PFW_LIFE_DEAD;
	snprintf(why, size,
		 "not finished by process %" PRIu64 ", which may run outside of this container",
		 claim->pid);
	return PFW_LIFE_UNKNOWN;
}

/* ---- together ---- */

static bool is_compacted(const char *path)
{
	struct pfw_blocks blocks;
	struct pfw_marks marks = { 0 };

	if (pfw_blocks_find(&blocks, path) == 0) {
		pfw_marks_read(&marks, path, &blocks);
		pfw_blocks_free(&blocks);
	}
	return marks.marked;
}

enum pfw_life pfw_life_of(const char *path, char *why, size_t size)
{
	struct pfw_claim claim;
	struct pfw_trace trace;
	enum pfw_life life;

	*why = '\0';
	if (pfw_writing_of(path) == PFW_WRITING_ACTIVE) {
		snprintf(why, size, "a process has it open");
		return PFW_LIFE_ALIVE;
	}
	if (pfw_claim_read(&claim, path) || !claim.ours || is_compacted(path))
		return PFW_LIFE_DEAD;
	if (ask_spool(&claim, &life, why, size))
		return life;
	if (!pfw_trace_read(&trace, path) && trace.ended)
		return PFW_LIFE_DEAD;
	return ask_pid(&claim, why, size);
}
