//! The public data sets that can be got, and what their files must be.

/// A public data set.
#[derive(Debug)]
pub(crate) struct Collection {
    pub name: &'static str,
    /// The address of the folder on the web.
    pub address: &'static str,
    /// The package of Debian and its kin that holds it, if there is one.
    pub package: Option<&'static str>,
    pub packing: Packing,
    /// Small files beside the others that give classes their names, if they are there.
    pub names: &'static [&'static str],
    pub parts: &'static [CollectionFile],
}

/// How files lie on the web.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Packing {
    /// Each by itself, with `.gz` behind its name.
    Gzip,
    /// Each as it is.
    Plain,
    /// All in one archive.
    Tar(CollectionFile),
}

/// A file of a data set, unpacked; or an archive of them, as it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CollectionFile {
    pub name: &'static str,
    pub size: u64,
    /// SHA-256, in hexadecimal.
    pub checksum: &'static str,
}

pub(crate) static COLLECTIONS: &[Collection] = &[
    Collection {
        name: "fashion-mnist",
        address: "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
        package: Some("dataset-fashion-mnist"),
        packing: Packing::Gzip,
        names: &[],
        parts: &[
            CollectionFile {
                name: "train-images-idx3-ubyte",
                size: 47_040_016,
                checksum: "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            },
            CollectionFile {
                name: "train-labels-idx1-ubyte",
                size: 60_008,
                checksum: "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            },
            CollectionFile {
                name: "t10k-images-idx3-ubyte",
                size: 7_840_016,
                checksum: "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            },
            CollectionFile {
                name: "t10k-labels-idx1-ubyte",
                size: 10_008,
                checksum: "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            },
        ],
    },
    Collection {
        name: "mnist",
        address: "https://ossci-datasets.s3.amazonaws.com/mnist/",
        package: None,
        packing: Packing::Gzip,
        names: &[],
        parts: &[
            CollectionFile {
                name: "train-images-idx3-ubyte",
                size: 47_040_016,
                checksum: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            },
            CollectionFile {
                name: "train-labels-idx1-ubyte",
                size: 60_008,
                checksum: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            },
            CollectionFile {
                name: "t10k-images-idx3-ubyte",
                size: 7_840_016,
                checksum: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            },
            CollectionFile {
                name: "t10k-labels-idx1-ubyte",
                size: 10_008,
                checksum: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            },
        ],
    },
    Collection {
        name: "cifar-10",
        address: "https://www.cs.toronto.edu/~kriz/",
        package: None,
        packing: Packing::Tar(CollectionFile {
            name: "cifar-10-binary.tar.gz",
            size: 170_052_171,
            checksum: "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        }),
        names: &["batches.meta.txt"],
        parts: &[
            CollectionFile {
                name: "data_batch_1.bin",
                size: 30_730_000,
                checksum: "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
            },
            CollectionFile {
                name: "data_batch_2.bin",
                size: 30_730_000,
                checksum: "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
            },
            CollectionFile {
                name: "data_batch_3.bin",
                size: 30_730_000,
                checksum: "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
            },
            CollectionFile {
                name: "data_batch_4.bin",
                size: 30_730_000,
                checksum: "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
            },
            CollectionFile {
                name: "data_batch_5.bin",
                size: 30_730_000,
                checksum: "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
            },
            CollectionFile {
                name: "test_batch.bin",
                size: 30_730_000,
                checksum: "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
            },
        ],
    },
    Collection {
        name: "cifar-100",
        address: "https://www.cs.toronto.edu/~kriz/",
        package: None,
        packing: Packing::Tar(CollectionFile {
            name: "cifar-100-binary.tar.gz",
            size: 168_513_733,
            checksum: "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        }),
        names: &["fine_label_names.txt", "coarse_label_names.txt"],
        parts: &[
            CollectionFile {
                name: "train.bin",
                size: 153_700_000,
                checksum: "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
            },
            CollectionFile {
                name: "test.bin",
                size: 30_740_000,
                checksum: "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
            },
        ],
    },
    Collection {
        name: "svhn",
        address: "http://ufldl.stanford.edu/housenumbers/",
        package: None,
        packing: Packing::Plain,
        names: &[],
        parts: &[
            CollectionFile {
                name: "train_32x32.mat",
                size: 182_040_794,
                checksum: "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
            },
            CollectionFile {
                name: "test_32x32.mat",
                size: 64_275_384,
                checksum: "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
            },
        ],
    },
    Collection {
        name: "ud-english-ewt",
        address: "https://raw.githubusercontent.com/UniversalDependencies/UD_English-EWT/r2.16/",
        package: None,
        packing: Packing::Plain,
        names: &[],
        parts: &[
            CollectionFile {
                name: "en_ewt-ud-train.conllu",
                size: 14_203_025,
                checksum: "3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b",
            },
            CollectionFile {
                name: "en_ewt-ud-dev.conllu",
                size: 1_805_545,
                checksum: "531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6",
            },
            CollectionFile {
                name: "en_ewt-ud-test.conllu",
                size: 1_804_515,
                checksum: "e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd",
            },
        ],
    },
];
