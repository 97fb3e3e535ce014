//! HDF5, as much as it takes to write one table of numbers: the rows follow a head of a fixed size.
//!
//! The head is that of version 0 of the format, which every reader knows: a superblock, the root group with its one
//! name, and a table of 32-bit numbers that lie in one piece. What each part holds stands in the specification,
//! <https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html>.

/// How many bytes stand before the rows.
pub(crate) const HEAD: u64 = 2048;

/// The name of the table.
pub(crate) const TABLE: &str = "reviews";

/// Where the parts of the head lie.
const ROOT: u64 = 96;
const TREE: u64 = 256;
const HEAP: u64 = 832;
const HEAP_DATA: u64 = 896;
const SYMBOLS: u64 = 1024;
const DATASET: u64 = 1400;

const NOWHERE: u64 = u64::MAX;

/// Everything before the rows of a table.
pub(crate) fn head(rows: u64, columns: u64) -> Vec<u8> {
    let mut head = Vec::new();
    superblock(&mut head, HEAD + 4 * rows * columns);
    at(&mut head, ROOT);
    // The symbol table of the root group: where its tree and its heap of names are.
    object(&mut head, &[(0x11, [TREE, HEAP].iter().flat_map(|address| address.to_le_bytes()).collect())]);
    at(&mut head, TREE);
    tree(&mut head);
    at(&mut head, HEAP);
    head.extend(b"HEAP\0\0\0\0");
    numbers(&mut head, &[88, NOWHERE_IN_HEAP, HEAP_DATA]);
    at(&mut head, HEAP_DATA);
    head.extend([0; 8]);
    head.extend(TABLE.as_bytes());
    at(&mut head, SYMBOLS);
    symbols(&mut head);
    at(&mut head, DATASET);
    object(
        &mut head,
        &[
            (1, dataspace(rows, columns)),
            // 32 bits, little-endian, signed.
            (3, vec![0x10, 0x08, 0, 0, 4, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0]),
            // Nothing is filled in: all rows are written.
            (5, vec![2, 1, 0, 0, 0, 0, 0, 0]),
            (8, layout(4 * rows * columns)),
        ],
    );
    at(&mut head, HEAD);
    head
}

/// The free list of a heap of names that has no free room: 1 is nowhere.
const NOWHERE_IN_HEAP: u64 = 1;

/// Fills up to an address.
fn at(head: &mut Vec<u8>, address: u64) {
    assert!(head.len() as u64 <= address, "the parts of an HDF5 head do not overlap");
    head.resize(address as usize, 0);
}

fn numbers(head: &mut Vec<u8>, numbers: &[u64]) {
    head.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn superblock(head: &mut Vec<u8>, end: u64) {
    head.extend(b"\x89HDF\r\n\x1a\n");
    // Versions, sizes of addresses and lengths, and how many names a node of a tree has.
    head.extend([0, 0, 0, 0, 0, 8, 8, 0, 4, 0, 16, 0, 0, 0, 0, 0]);
    numbers(head, &[0, NOWHERE, end, NOWHERE]);
    // The entry of the root group: no name, its object, and where its tree and heap are, cached.
    numbers(head, &[0, ROOT, 1, TREE, HEAP]);
}

/// An object: a head and messages, each of a type and of a multiple of eight bytes.
fn object(head: &mut Vec<u8>, messages: &[(u16, Vec<u8>)]) {
    let size: usize = messages.iter().map(|(_, body)| 8 + body.len()).sum();
    head.extend([1, 0]);
    head.extend((messages.len() as u16).to_le_bytes());
    head.extend(1u32.to_le_bytes());
    head.extend((size as u32).to_le_bytes());
    head.extend([0; 4]);
    for (kind, body) in messages {
        head.extend(kind.to_le_bytes());
        head.extend((body.len() as u16).to_le_bytes());
        head.extend([0; 4]);
        head.extend(body);
    }
}

/// A tree of one leaf, whose only child holds all names.
fn tree(head: &mut Vec<u8>) {
    head.extend(b"TREE\0\0\x01\0");
    numbers(head, &[NOWHERE, NOWHERE, 0, SYMBOLS, 8]);
}

/// The table's name, by its place in the heap, and its object.
fn symbols(head: &mut Vec<u8>) {
    head.extend(b"SNOD\x01\0\x01\0");
    numbers(head, &[8, DATASET, 0, 0, 0]);
}

fn dataspace(rows: u64, columns: u64) -> Vec<u8> {
    let mut body = vec![1, 2, 0, 0, 0, 0, 0, 0];
    numbers(&mut body, &[rows, columns]);
    body
}

/// In one piece, behind the head.
fn layout(size: u64) -> Vec<u8> {
    let mut body = vec![3, 1];
    body.extend(if size == 0 { NOWHERE } else { HEAD }.to_le_bytes());
    body.extend(size.to_le_bytes());
    body.resize(24, 0);
    body
}
