/* recorder/session/confine.c - the program puts itself under seccomp. */
#include <linux/seccomp.h>
#include <string.h>
#include <sys/prctl.h>

#include "common/base/os.h"
#include "common/base/seccomp.h"
#include "common/base/text.h"
#include "common/settings/process.h"
#include "recorder/gpu/cupti.h"
#include "recorder/guest/peek.h"
#include "recorder/guest/say.h"
#include "recorder/session/internal.h"
#include "recorder/session/stepper.h"

#ifndef MADV_KEEPONFORK
#define MADV_KEEPONFORK 19
#endif

struct look {
	const void *program; /* a struct sock_fprog of the program */
	enum pfw_seccomp answer;
	const char *name;
	bool writer; /* it can work under the filter */
};

/* The filter of the program, in memory that is `bytes` long.  0: the kernel will refuse it, too. */
static unsigned copy_filter(const void *program, struct sock_filter *filter)
{
	struct sock_fprog head;

	if (!pfw_peek(&head, program, sizeof(head)) || !head.len || head.len > BPF_MAXINSNS ||
	    !pfw_peek(filter, head.filter, head.len * sizeof(*filter)))
		return 0;
	return head.len;
}

static void look_at(void *arg)
{
	size_t bytes =
		BPF_MAXINSNS * (sizeof(struct sock_filter) + sizeof(struct pfw_seccomp_state));
	struct sock_filter *filter = pfw_os_map(bytes);
	struct look *look = arg;
	unsigned count;

	look->answer = PFW_SECCOMP_KILLS;
	look->name = "mmap";
	if (!filter)
		return;
	count = copy_filter(look->program, filter);
	if (count)
		look->answer = pfw_seccomp_ask_all(
			filter, count, (struct pfw_seccomp_state *)(filter + BPF_MAXINSNS),
			&look->name, &look->writer);
	else
		look->answer = PFW_SECCOMP_ALLOWS;
	pfw_os_munmap(filter, bytes);
}

/* From here on neither this process nor a child of it makes a system call of ours. */
static void stop(void *unused)
{
	(void)unused;
	atomic_store(&pfw_session.writer.anchored, 0);
	pfw_writer_pause(&pfw_session.writer, true);
	atomic_store(&pfw_session.state, OFF);
	pfw_session.confined = true;
	pfw_session_switch();
	pfw_os_madvise(pfw_switches, 4096, MADV_KEEPONFORK);
}

static void say_why(void *arg)
{
	const struct look *look = arg;
	struct pfw_text text;
	char line[256];

	pfw_text_init(&text, line, sizeof(line));
	PFW_TEXT_ADD(&text, "recording ends here: the program's seccomp rules would kill it for ",
		     look->name, "(), which the recorder needs; what follows is not in the trace");
	pfw_say(line);
}

static void end_for_good(struct look *look)
{
	pfw_session_do(say_why, look);
	pfw_stepper_end(false);
	pfw_session_end("seccomp", NULL, false);
	pfw_session_do(stop, NULL);
}

/* Else the kernel refuses the filter, and recording would end for nothing. */
static bool may_filter(void)
{
	return pfw_syscall6(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0, 0) > 0 ||
	       !pfw_syscall6(SYS_geteuid, 0, 0, 0, 0, 0, 0);
}

/* Whether the program has one thread.  num_threads of proc(5) counts ours, too. */
static void count_threads(void *alone)
{
	unsigned ours = atomic_load(&pfw_session.writer.threads) + pfw_cupti_threads();
	char text[1024], *at;

	if (pfw_os_read_file("/proc/self/stat", text, sizeof(text)) > 0 &&
	    (at = strrchr(text, ')')) && at[1] == ' ')
		*(bool *)alone = pfw_process_word(at + 2, 17) == ours + 1;
}

bool pfw_session_confine(const void *program, unsigned flags)
{
	struct look look = { .program = program, .answer = PFW_SECCOMP_KILLS, .name = "futex" };
	int error = errno;
	bool alone = false;

	if (!pfw_session_is_on() || pfw_thread.vfork_child ||
	    (program && (!may_filter() || !pfw_session_do(look_at, &look))))
		return false;
	if (look.answer == PFW_SECCOMP_KILLS) {
		end_for_good(&look);
	} else {
		pfw_session_hold_files();
		pfw_session_do(count_threads, &alone);
	}
	errno = error;
	return alone && look.writer &&
	       !(flags & (SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_NEW_LISTENER));
}
