"""How much is read of anything, and what an honest file needs of that."""

DOCUMENT = 1 << 21  # bytes of a plan, header or model: 100 states are 0.6 MB, 10⁴ names 0.2 MB
ARCHIVE = 1 << 31  # bytes of a level or checkpoint: a dense level of 16,000 readings
HELD_WHOLE = 1 << 28  # bytes of text held whole (a matrix, one release): 10⁷ numbers; tables that
# are read in blocks and streams have no limit
LONGEST_LINE = 1 << 25  # bytes of a line of text: 10⁶ columns
MOST_COLUMNS = 1 << 20  # of a table
DEEPEST = 32  # lists within lists: ours have 5
MOST_ITEMS = 1 << 25  # of a document; its size in bytes is the stricter limit
MOST_PARAMETERS = 10_000  # a square matrix of that side takes 0.8 GB
LONGEST_TEXT = 10_000  # letters of a name or a message
LARGEST_COUNT = 2**62  # a whole number that a machine can count to
LARGEST_STATE = 1e150  # of a number in a saved state: sums of its squares are finite
READ_WHOLE = 500  # bytes of memory a byte of text, at worst: tables within tables in TOML
