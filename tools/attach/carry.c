/* tools/attach/carry.c - copies the recorder into another root: see inject.h.
 *
 * Other users may write to the directories there.  So the command follows no link out of that root, takes
 * a name that no file has, and removes the file as soon as the process has loaded it.
 */
#include "attach/inject.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "attach/tracee.h"
#include "common/format/clock.h"
#include "store/sys/open.h"
#include "ui/cli.h"

/* In this order.  Containers often have /dev/shm without the right to run code. */
static const char *const directories[] = { "/dev/shm", "/tmp", "/var/tmp", "/run" };

static bool can_load_from(int directory)
{
	struct statvfs system;

	return fstatvfs(directory, &system) == 0 && !(system.f_flag & (ST_NOEXEC | ST_RDONLY));
}

/* /proc/self/fd/N/NAME: the directory itself, wherever its name leads to by now. */
static void name_of(const struct carried *carried, char path[96])
{
	snprintf(path, 96, "/proc/self/fd/%d/%s", carried->directory, carried->name);
}

static int copy(const char *from, const char *to)
{
	struct stat st;
	int in = pfw_open_file(from, PFW_OPEN_LINK, &st), out = pfw_open_new(to, 0600), error = 0;
	off_t left = in < 0 ? 0 : st.st_size;

	if (in < 0 || out < 0)
		error = in < 0 ? in : out;
	while (!error && left > 0) {
		ssize_t bytes = sendfile(out, in, NULL, (size_t)left);

		if (bytes <= 0)
			error = bytes ? -errno : -EIO;
		left -= bytes;
	}
	/* The process may run as another user, who only reads the file. */
	if (!error && fchmod(out, 0644) < 0)
		error = -errno;
	if (out >= 0 && error)
		unlink(to);
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	return error;
}

static int carry_into(struct carried *carried, const char *root, const char *directory,
		      const char *recorder)
{
	char path[96];
	int error;

	carried->directory = pfw_open_inside(root, directory);
	if (carried->directory < 0)
		return carried->directory;
	snprintf(carried->name, sizeof(carried->name), "libpfw.so.1-%d-%llx", (int)getpid(),
		 (unsigned long long)pfw_clock_ns(CLOCK_REALTIME));
	snprintf(carried->inside, sizeof(carried->inside), "%s/%s", directory, carried->name);
	name_of(carried, path);
	error = can_load_from(carried->directory) ? copy(recorder, path) : -EACCES;
	if (error) {
		close(carried->directory);
		carried->directory = -1;
	}
	return error;
}

int carry_in(struct carried *carried, struct tracee *tracee, const char *recorder)
{
	char root[32];
	int error = -ENOENT;

	snprintf(root, sizeof(root), "/proc/%d/root", (int)tracee->pid);
	for (size_t i = 0; i < CLI_ARRAY_LEN(directories); i++) {
		error = carry_into(carried, root, directories[i], recorder);
		if (!error)
			return 0;
	}
	return tracee_refuse(
		tracee,
		"the recorder cannot be copied into its root (a container, a chroot): "
		"none of /dev/shm, /tmp, /var/tmp, /run there takes a file that can be "
		"run (%s): mount a tmpfs there, or install pfw in it",
		strerror(-error));
}

void carry_out(struct carried *carried)
{
	char path[96];

	if (carried->directory < 0)
		return;
	name_of(carried, path);
	unlink(path);
	close(carried->directory);
	carried->directory = -1;
}
