/* spool_live.h - the spool of a process that goes on, read into memory while it does.
 *
 * Nothing stops the process, and nothing in its spool is touched: its writer may write the file,
 * move the tails and give slots away while we copy.  So slots, names and short calls are copied
 * first, and only then it is asked how far the file is (the slot) and which records it holds (the
 * tails that belong to that slot).  What is copied and not in the file by then cannot have been
 * overwritten.  So each event is in the file or in the image, and whole.
 */
#ifndef PFW_SPOOL_LIVE_H
#define PFW_SPOOL_LIVE_H

struct pfw_spool_image;

/*
 * Read the rest, behind a header that was read well: of a living process, or a dead one.  The file
 * and image->slot then tell the same moment.  Has each event whose call had returned before, and
 * perhaps some that came since; none that has not returned.  Return 0; -EBUSY where the writer was
 * always faster; else as pfw_spool_image_chunks().
 */
int pfw_spool_image_live(struct pfw_spool_image *image, char *why);

#endif
