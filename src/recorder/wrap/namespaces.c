/* recorder/wrap/namespaces.c - wrappers of calls that change roots, namespaces and users. */
#define PFW_OS_NO_POISON
#include <linux/nsfs.h>

#include "recorder/probe/call_filter.h"
#include "recorder/probe/probe.h"
#include "recorder/wrap/calls.h"

/* The kernel gives these only to a process of one thread. */
#define ALONE (CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)

static void be_gone(bool gone)
{
	int error = errno;

	if (pfw_probe_host.be_gone && !pfw_thread.vfork_child)
		pfw_probe_host.be_gone(gone);
	errno = error;
}

/* Hold our files from here on.  False: a thread of ours shares the root. */
static bool stay_behind(void)
{
	int error = errno;
	bool apart;

	pfw_probe_names(); /* a forked child must be set up before */
	apart = !pfw_probe_host.stay_behind || pfw_probe_host.stay_behind();
	errno = error;
	return apart;
}

/* The new user may be unable to make the trace: make it now. */
static void hold_files(void)
{
	int error = errno;

	pfw_probe_names();
	if (pfw_probe_host.hold_files)
		pfw_probe_host.hold_files();
	errno = error;
}

static void user_changed(void)
{
	int error = errno;

	if (pfw_probe_host.user_changed)
		pfw_probe_host.user_changed();
	errno = error;
}

int pfw_wrap_chroot(const char *path)
{
	struct pfw_path_probe probe;
	bool traced;
	int ret;

	/* Afterwards the program may be root elsewhere, or nobody, and our paths may not exist
	 * there. */
	stay_behind();
	traced = pfw_probe_path(&probe, PFW_CALL_chroot, AT_FDCWD, path);
	ret = pfw_real.chroot(path);
	if (traced)
		pfw_probe_path_end(&probe, ret < 0, AT_FDCWD, path, PFW_VALUES((uint64_t)ret));
	return ret;
}

int pfw_wrap_unshare(int flags)
{
	bool alone = flags & ALONE, mounts = flags & CLONE_NEWNS, traced;
	struct pfw_probe probe;
	int ret;

	traced = pfw_probe_bare(&probe, PFW_CALL_unshare);
	if (alone)
		be_gone(true);
	else if (mounts)
		stay_behind();
	ret = pfw_real.unshare(flags);
	if (alone)
		be_gone(false);
	/* Before the program mounts something over our files. */
	if (alone && mounts && ret == 0)
		stay_behind();
	if (traced)
		pfw_probe_end(&probe, ret < 0, PFW_VALUES((uint64_t)ret, (uint64_t)flags));
	return ret;
}

/* Whether fd is a namespace of one of these types; nstype is the program's argument. */
static bool is_namespace(int fd, int nstype, int type)
{
	if (!nstype)
		nstype = (int)pfw_syscall6(SYS_ioctl, fd, NS_GET_NSTYPE, 0, 0, 0, 0);
	return nstype > 0 && nstype & type;
}

int pfw_wrap_setns(int fd, int nstype)
{
	struct pfw_probe probe;
	bool traced = pfw_probe_fd(&probe, pfw_call_filter[PFW_CALL_setns], fd);
	bool alone = is_namespace(fd, nstype, CLONE_NEWUSER);
	int ret;

	/* The kernel changes the mount namespace only of a thread that shares its root with no
	 * other. */
	if (!alone && is_namespace(fd, nstype, CLONE_NEWNS))
		alone = !stay_behind();
	if (alone)
		be_gone(true);
	ret = pfw_real.setns(fd, nstype);
	if (alone)
		be_gone(false);
	if (traced)
		pfw_probe_end(&probe, ret < 0,
			      PFW_VALUES((uint64_t)ret, (uint64_t)fd, (uint64_t)nstype));
	return ret;
}

#define USER(name, params, args, ...)                                                           \
	int pfw_wrap_##name params                                                              \
	{                                                                                       \
		struct pfw_probe probe;                                                         \
		bool traced;                                                                    \
		int ret;                                                                        \
                                                                                                \
		hold_files();                                                                   \
		traced = pfw_probe_bare(&probe, PFW_CALL_##name);                               \
		ret = pfw_real.name args;                                                       \
		if (ret == 0)                                                                   \
			user_changed();                                                         \
		if (traced)                                                                     \
			pfw_probe_end(&probe, ret < 0, PFW_VALUES((uint64_t)ret, __VA_ARGS__)); \
		return ret;                                                                     \
	}
#define ID(id) (uint64_t)(int32_t)(id)
USER(setuid, (uid_t uid), (uid), ID(uid))
USER(seteuid, (uid_t euid), (euid), ID(euid))
USER(setreuid, (uid_t ruid, uid_t euid), (ruid, euid), ID(ruid), ID(euid))
USER(setresuid, (uid_t ruid, uid_t euid, uid_t suid), (ruid, euid, suid), ID(ruid), ID(euid),
     ID(suid))
#undef ID
#undef USER
