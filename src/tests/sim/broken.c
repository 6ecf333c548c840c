/* broken.c: the table. Most are the ring of two executors, or a small exchange, with one thing
 * changed. Line 1 is the line of "schedule".
 */
#include "sim/broken.h"

#define RING "schedule AllReduce\nranks 0 1\npieces 2\n"
#define E0                                                                                         \
    "executor 0\nsend 1\nrecv 1\n"                                                                 \
    "fold 0 from in:0 to link:0\n"                                                                 \
    "fold 1 post from link:1 in:0 to link:0 out:0\n"                                               \
    "fold 0 from link:1 to out:0\n"
#define E1                                                                                         \
    "executor 1\nsend 0\nrecv 0\n"                                                                 \
    "fold 1 from in:1 to link:0\n"                                                                 \
    "fold 0 post from link:1 in:1 to link:0 out:1\n"                                               \
    "fold 1 from link:1 to out:1\n"
#define E1_WITH(first, second, third)                                                              \
    "executor 1\nsend 0\nrecv 0\n" first "\n" second "\n" third "\n"
#define FIRST  "fold 1 from in:1 to link:0"
#define SECOND "fold 0 post from link:1 in:1 to link:0 out:1"
#define THIRD  "fold 1 from link:1 to out:1"
#define END    "end\n"
#define GATHER "schedule AllGather\nranks 0 1\n"
#define DIRECT "schedule AllReduce\nranks 0 1\npieces 2\n"

const struct broken broken_programs[] = {
    /* ---- the text ---- */
    {"empty", "# nothing\n", "no schedule in it"},
    {"no end", RING E0 E1, "'end' is missing"},
    {"unknown collective", "schedule AllReduces\n", "line 1: schedule needs a collective"},
    {"unknown word", "schedule AllReduce\nrank 0 1\n", "line 2: unknown word 'rank'"},
    {"outside", "ranks 0 1\n", "line 1: 'ranks' outside a schedule"},
    {"executors out of order", "schedule AllReduce\nranks 1 0\n", "line 2: executors are numbered"},
    {"executor that is not there", RING E0 E1 "executor 2\n", "line 16: there is no executor 2"},
    {"executor twice", RING E0 E1 E0 END, "line 16: executor 0 a second time"},
    {"executor missing", RING E0 END, "executor 1 is missing"},
    {"link twice", RING "executor 0\nsend 1\nsend 1\n", "line 6: this link is there already"},
    {"bad range", RING "executor 0\nfold 0 from in:0:1 to out:0\n", "'in:0:1' is no range"},
    {"bad flag", RING "executor 0\nfold 0 posted from in:0 to out:0\n", "'posted' is no flag"},
    {"two buffers", RING "executor 0\nfold 0 from in:0 out:0 to out:0\n", "a second range"},
    {"no to", RING "executor 0\nfold 0 from in:0\n", "fold without 'to'"},
    {"number", RING "executor 0\nfold x from in:0 to out:0\n", "fold needs a number"},
    {"protocol", "schedule AllReduce\nprotocol LL128\n", "line 2: protocol is Simple or LL"},

    /* ---- each step ---- */
    {"piece", RING E0 E1_WITH("fold 2 from in:1 to link:0", SECOND, THIRD) END,
     "executor 1, step 0 (line 13): there is no piece 2 of 2"},
    {"slot", RING E0 E1_WITH(FIRST, "fold 0 post from link:1 in:1*2 to link:0 out:1", THIRD) END,
     "executor 1, step 1 (line 14): there is no slot 2"},
    {"foreign buffer", RING E0 E1_WITH(FIRST, SECOND, "fold 1 from link:1 to out:0*2") END,
     "executor 1, step 2 (line 15): touches a buffer of rank 0, which is on executor 0"},
    {"block", RING E0 E1_WITH(FIRST, SECOND, "fold 1 from link:1 to out:1@1") END,
     "step 2 (line 15): the output of rank 1 has no block 1"},
    {"link", RING E0 E1_WITH("fold 1 from in:1 to link:2", SECOND, THIRD) END,
     "step 0 (line 13): there is no link 2"},
    {"direction", RING E0 E1_WITH("fold 1 from in:1 to link:1", SECOND, THIRD) END,
     "step 0 (line 13): writes to link 1, which receives"},
    {"place", RING E0 E1_WITH("fold 1 from in:1 to link:0@1", SECOND, THIRD) END,
     "there is no place 1 in a slot of 1"},
    {"input as target", RING E0 E1_WITH(FIRST, SECOND, "fold 1 from link:1 to in:1") END,
     "step 2 (line 15): writes to an input"},
    {"nothing read", RING E0 E1_WITH("fold 1 from to link:0", SECOND, THIRD) END, "reads nothing"},
    {"no root", "schedule Reduce\nranks 0\nexecutor 0\nend\n", "Reduce with root -1 of 1 ranks"},
    {"no input but the root's",
     "schedule Broadcast\nroot 0\nranks 0 0\nexecutor 0\nfold 0 from in:1 to out:0*2\nend\n",
     "step 0 (line 5): rank 1 has no input"},

    /* ---- what comes out ---- */
    {"an input is left out",
     RING E0 E1_WITH(FIRST, "fold 0 post from link:1 to link:0 out:1", THIRD) END,
     "executor 0, step 2 (line 9): the output of rank 0 lacks the input of rank 1"},
    {"an input is added twice",
     "schedule AllReduce\nranks 0 0\nexecutor 0\nfold 0 post from in:0*2+0 to out:0*2\nend\n",
     "step 0 (line 4): adds the input of rank 0 a second time"},
    {"an output is left out", RING E0 E1_WITH(FIRST, SECOND, "fold 0 from link:1 to out:1") END,
     "step 2 (line 15): expects piece 0 of round 0, executor 0 sends piece 1 of round 0 in step 1"},
    {"nobody writes", "schedule AllReduce\nranks 0\nexecutor 0\nend\n",
     "executor 0: nobody writes block 0, piece 0 of the output of rank 0"},
    {"never finished", RING E0 E1_WITH(FIRST, "fold 0 from link:1 in:1 to link:0 out:1", THIRD) END,
     "executor 0, step 2 (line 9): the result of rank 0 is never finished"},
    {"finished early", RING E0 E1_WITH("fold 1 post from in:1 to link:0", SECOND, THIRD) END,
     "executor 0, step 1 (line 8): adds to a result that is finished"},
    {"wrong block",
     GATHER "executor 0\nsend 1\nrecv 1\nfold 0 from in:0 to link:0 out:0\n"
            "fold 0 from link:1 to out:0@1\n"
            "executor 1\nsend 0\nrecv 0\nfold 0 from in:1 to link:0 out:1\n"
            "fold 0 from link:1 to out:1@1\n" END,
     "executor 1, step 0 (line 11): the output of rank 1 lacks the input of rank 0"},
    {"overwritten in place",
     "schedule AllReduce\nranks 0 0\nexecutor 0\nfold 0 from in:1 to out:0\n"
     "fold 0 post from in:0*2 to out:0*2\nend\n",
     "step 1 (line 5): reads the input of rank 0 after step 0 of executor 0 has overwritten"},
    {"adds where data is moved",
     "schedule Broadcast\nroot 0\nranks 0\nexecutor 0\nfold 0 from in:0*2+0 to out:0\nend\n",
     "step 0 (line 5): adds in a collective that only moves data"},

    /* ---- order ---- */
    {"both receive first",
     RING "executor 0\nsend 1\nrecv 1\nfold 1 post from link:1 in:0 to link:0 out:0\n"
          "fold 0 from in:0 to link:0\nfold 0 from link:1 to out:0\n"
          "executor 1\nsend 0\nrecv 0\nfold 0 post from link:1 in:1 to link:0 out:1\n"
          "fold 1 from in:1 to link:0\nfold 1 from link:1 to out:1\n" END,
     "executor 0, step 0 (line 7): waits for ever for executor 1"},
    {"a slot too few",
     "schedule AllGather\nranks 0 0 0 1 1 1\n"
     "executor 0\nsend 1\nrecv 1\nfold 0 from in:0 to link:0 out:0*3\n"
     "fold 0 from in:1 to link:0 out:0*3@1\nfold 0 from in:2 to link:0 out:0*3@2\n"
     "fold 0 from link:1 to out:0*3@3\nfold 0 from link:1 to out:0*3@4\n"
     "fold 0 from link:1 to out:0*3@5\n"
     "executor 1\nsend 0\nrecv 0\nfold 0 from in:3 to link:0 out:3*3@3\n"
     "fold 0 from in:4 to link:0 out:3*3@4\nfold 0 from in:5 to link:0 out:3*3@5\n"
     "fold 0 from link:1 to out:3*3@0\nfold 0 from link:1 to out:3*3@1\n"
     "fold 0 from link:1 to out:3*3@2\n" END,
     "executor 0, step 2 (line 8): waits for ever for a free slot (depth 2)"},
    {"a message too many", RING E0 "fold 0 from out:0 to link:0\n" E1 END,
     "executor 1, step 1 (line 15): expects piece 0 of round 1, executor 0 sends piece 0 of round "
     "0 in step 3"},
    {"a slot that stays open",
     RING E0 E1_WITH("fold 1 fill from in:1 to link:0", SECOND, THIRD) END,
     "executor 1, step 1 (line 14): adds piece 0 to a slot of piece 1"},

    /* ---- meetings ---- */
    {"no meeting before",
     DIRECT "executor 0\nfold 0 post from in:0*2 to out:0*2\nmeet\n"
            "executor 1\nmeet publish\nfold 1 post from in:0*2 to out:0*2\nmeet\n" END,
     "executor 0, step 0 (line 5): touches buffers of others before they are published"},
    {"no meeting after",
     DIRECT "executor 0\nmeet publish\nfold 0 post from in:0*2 to out:0*2\nmeet\n"
            "executor 1\nmeet publish\nfold 1 post from in:0*2 to out:0*2\n" END,
     "executor 1, step 1 (line 10): touches buffers of others with no meeting after it"},
    {"a meeting that others miss",
     DIRECT "executor 0\nmeet publish\nfold 0 post from in:0*2 to out:0*2\nmeet\nmeet\n"
            "executor 1\nmeet publish\nfold 1 post from in:0*2 to out:0*2\nmeet\n" END,
     "executor 0, step 3 (line 8): waits for ever at a meeting"},
    {"reads what another writes",
     "schedule AllReduce\nranks 0 1\nexecutor 0\nmeet publish\n"
     "fold 0 from out:1 to out:0\nmeet\n"
     "executor 1\nmeet publish\nfold 0 post from in:0*2 to out:1\nmeet\n" END,
     "executor 0, step 1 (line 5): reads what executor 1 writes in step 1, with no meeting"},
    {"overwrites what another reads",
     "schedule AllReduce\nranks 0 1\nexecutor 0\nmeet publish\n"
     "fold 0 post from in:0*2 to out:0\nmeet\n"
     "executor 1\nmeet publish\nfold 0 post from in:0*2 to out:1\nmeet\n" END,
     "executor 0, step 1 (line 5): reads the input of rank 1 after step 1 of executor 1"},
    {"links and meetings", RING E0 "meet\n" E1 END, "has links in a schedule with meetings"},
};
const size_t nbroken_programs = sizeof broken_programs / sizeof broken_programs[0];
