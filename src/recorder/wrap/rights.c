/* recorder/wrap/rights.c - wrappers of calls that take rights from their thread: see rights.h. */
#define PFW_OS_NO_POISON
#include "recorder/wrap/rights.h"

#include <linux/seccomp.h>
#include <sys/syscall.h>

#include "recorder/probe/probe.h"
#include "recorder/wrap/calls.h"

enum kind {
	OTHER,
	FOLLOWED, /* our thread makes the call, too */
	HELD,	  /* so it does, but files may not be reached by their names afterwards */
	STRICT,	  /* seccomp */
	FILTER,
};

static enum kind kind_of_prctl(int option, long mode)
{
	switch (option) {
	case PR_SET_KEEPCAPS:
	case PR_SET_SECUREBITS:
	case PR_SET_NO_NEW_PRIVS:
	case PR_CAPBSET_DROP:
	case PR_CAP_AMBIENT:
		return FOLLOWED;
	case PR_SET_SECCOMP:
		return mode == SECCOMP_MODE_STRICT   ? STRICT
		       : mode == SECCOMP_MODE_FILTER ? FILTER
						     : OTHER;
	default:
		return OTHER;
	}
}

static enum kind kind_of(long number, const long *arg)
{
	switch (number) {
	case SYS_capset:
	case PFW_SYS_LANDLOCK_RESTRICT_SELF:
		return HELD;
	case SYS_prctl:
		return kind_of_prctl((int)arg[0], arg[1]);
	case SYS_seccomp:
		return arg[0] == SECCOMP_SET_MODE_STRICT   ? STRICT
		       : arg[0] == SECCOMP_SET_MODE_FILTER ? FILTER
							   : OTHER;
	default:
		return OTHER;
	}
}

static unsigned filter_flags(long number, const long *arg)
{
	return number == SYS_seccomp ? (unsigned)arg[1] : 0;
}

enum pfw_rights pfw_rights_begin(long number, const long *arg)
{
	enum kind kind = kind_of(number, arg);
	int error = errno;
	bool sync = false;

	if (kind == HELD || kind == STRICT || kind == FILTER)
		pfw_probe_names(); /* a forked child must be set up before */
	if (kind == HELD && pfw_probe_host.hold_files)
		pfw_probe_host.hold_files();
	if (kind == STRICT || kind == FILTER) {
		sync = pfw_probe_host.confine &&
		       pfw_probe_host.confine(kind == FILTER ? (const void *)arg[2] : NULL,
					      filter_flags(number, arg));
	}
	errno = error;
	return kind == OTHER ? PFW_RIGHTS_NONE : sync ? PFW_RIGHTS_SYNC : PFW_RIGHTS_TAKEN;
}

/* The result is a thread that cannot have the filter; EINVAL: the kernel is older. */
bool pfw_rights_sync(long number, const long *arg, long *ret)
{
	int error = errno;

	*ret = pfw_real.syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
				filter_flags(number, arg) | SECCOMP_FILTER_FLAG_TSYNC, arg[2]);
	if (!*ret || (*ret < 0 && errno != EINVAL && errno != ENOSYS))
		return true;
	errno = error;
	return false;
}

/* The flag of a Landlock that makes the kernel put it on all threads. */
#define LANDLOCK_ALL_THREADS 8

void pfw_rights_end(long number, const long *arg, long ret)
{
	/* The thread number in the program's header is the program's. */
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	long call[5] = { arg[0], arg[1], arg[2], arg[3], arg[4] };
	int error = errno;

	if (ret < 0 || !pfw_probe_host.rights_given_up || kind_of(number, arg) >= STRICT ||
	    (number == PFW_SYS_LANDLOCK_RESTRICT_SELF && arg[1] & LANDLOCK_ALL_THREADS))
		return;
	if (number == SYS_capset) {
		header.version = ((cap_user_header_t)arg[0])->version;
		call[0] = (long)&header;
	}
	pfw_probe_host.rights_given_up(number, call);
	errno = error;
}

int pfw_wrap_capset(cap_user_header_t header, const cap_user_data_t data)
{
	const long arg[5] = { (long)header, (long)data };
	struct pfw_probe probe;
	bool traced;
	int ret;

	pfw_rights_begin(SYS_capset, arg);
	traced = pfw_probe_bare(&probe, PFW_CALL_capset);
	ret = pfw_real.capset(header, data);
	pfw_rights_end(SYS_capset, arg, ret);
	if (traced)
		pfw_probe_end(&probe, ret < 0, PFW_VALUES((uint64_t)ret));
	return ret;
}

int pfw_wrap_prctl(int option, ...)
{
	long arg[5] = { option };
	struct pfw_probe probe;
	enum pfw_rights rights;
	va_list rest;
	bool traced;
	long ret;

	va_start(rest, option);
	for (int i = 1; i < 5; i++)
		arg[i] = va_arg(rest, long);
	va_end(rest);
	rights = pfw_rights_begin(SYS_prctl, arg);
	traced = rights && pfw_probe_bare(&probe, PFW_CALL_prctl);
	if (rights != PFW_RIGHTS_SYNC || !pfw_rights_sync(SYS_prctl, arg, &ret))
		ret = pfw_real.prctl(option, arg[1], arg[2], arg[3], arg[4]);
	if (rights)
		pfw_rights_end(SYS_prctl, arg, ret);
	if (traced)
		pfw_probe_end(&probe, ret < 0, PFW_VALUES((uint64_t)ret, (uint64_t)option));
	return (int)ret;
}
