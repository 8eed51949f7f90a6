/* recorder/wrap/rights.c - wrappers of calls that take rights from their thread: see rights.h. */
#define PFW_OS_NO_POISON
#include "recorder/wrap/rights.h"

#include <sys/syscall.h>

#include "recorder/probe/call_filter.h"
#include "recorder/probe/probe.h"
#include "recorder/wrap/calls.h"

enum kind {
	OTHER,
	FOLLOWED, /* our thread makes the call, too */
	HELD,	  /* so it does, but files may not be reached by their names afterwards */
};

static enum kind kind_of(long number, const long *arg)
{
	switch (number) {
	case SYS_capset:
	case PFW_SYS_LANDLOCK_RESTRICT_SELF:
		return HELD;
	case SYS_prctl:
		break;
	default:
		return OTHER;
	}
	switch ((int)arg[0]) {
	case PR_SET_KEEPCAPS:
	case PR_SET_SECUREBITS:
	case PR_SET_NO_NEW_PRIVS:
	case PR_CAPBSET_DROP:
	case PR_CAP_AMBIENT:
		return FOLLOWED;
	default:
		return OTHER;
	}
}

bool pfw_rights_begin(long number, const long *arg)
{
	enum kind kind = kind_of(number, arg);
	int error = errno;

	if (kind == HELD && pfw_probe_host.hold_files)
		pfw_probe_host.hold_files();
	errno = error;
	return kind != OTHER;
}

/* The flag of a Landlock that makes the kernel put it on all threads. */
#define LANDLOCK_ALL_THREADS 8

void pfw_rights_end(long number, const long *arg, long ret)
{
	/* The thread number in the program's header is the program's. */
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	long call[5] = { arg[0], arg[1], arg[2], arg[3], arg[4] };
	int error = errno;

	if (ret < 0 || !pfw_probe_host.rights_given_up ||
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
	bool taken, traced;
	va_list rest;
	int ret;

	va_start(rest, option);
	for (int i = 1; i < 5; i++)
		arg[i] = va_arg(rest, long);
	va_end(rest);
	taken = pfw_rights_begin(SYS_prctl, arg);
	traced = taken && pfw_probe_bare(&probe, PFW_CALL_prctl);
	ret = pfw_real.prctl(option, arg[1], arg[2], arg[3], arg[4]);
	if (taken)
		pfw_rights_end(SYS_prctl, arg, ret);
	if (traced)
		pfw_probe_end(&probe, ret < 0, PFW_VALUES((uint64_t)ret, (uint64_t)option));
	return ret;
}
