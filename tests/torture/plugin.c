/* plugin.c - a library that does I/O in its constructor, when asked, and in its destructor. */
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))

SHOWN int plugin_early_reads;
SHOWN void (*plugin_at_unload)(void);

SHOWN ssize_t plugin_pread(int fd, void *buf, size_t bytes, off_t offset);
SHOWN ssize_t plugin_pread(int fd, void *buf, size_t bytes, off_t offset)
{
	return pread(fd, buf, bytes, offset);
}

__attribute__((constructor)) static void loaded(void)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	char byte;

	for (int i = 0; i < 3; i++)
		plugin_early_reads += pread(fd, &byte, 1, 0) == 1;
	close(fd);
}

__attribute__((destructor)) static void unloaded(void)
{
	if (plugin_at_unload)
		plugin_at_unload();
}
