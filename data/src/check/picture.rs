//! Pictures: there, readable, and of the trace's size.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use image::ImageReader;

use super::Fault;
use super::row::ImageRef;

/// What became of a picture.
pub(super) enum Seen {
    /// It can be read; width and height.
    Size(u32, u32),
    /// It lies elsewhere: a URL, or a path that is not on this machine.
    Elsewhere,
    /// It is there, and wrong.
    Wrong(Fault),
}

/// Looks at a picture; paths are tried as they are and below each of `folders`. Pixels are decoded only
/// where `decode` asks for it: the header tells the size, and a cut-off file only shows when it is read.
pub(super) fn look(image: &ImageRef, folders: &[PathBuf], decode: bool) -> Seen {
    match image {
        ImageRef::Null => Seen::Wrong(Fault::error(
            "image-missing",
            "a picture without bytes, and without a path",
            "export with --images bytes, or give the path",
        )),
        ImageRef::Bytes(bytes) => read(ImageReader::new(Cursor::new(bytes)).with_guessed_format(), decode),
        ImageRef::Path(path) if path.contains("://") => Seen::Elsewhere,
        ImageRef::Path(path) => {
            let candidates = std::iter::once(PathBuf::from(path)).chain(folders.iter().map(|f| f.join(path)));
            match candidates.into_iter().find(|p| p.is_file()) {
                None => Seen::Elsewhere,
                Some(found) => open(&found, decode),
            }
        }
    }
}

fn open(path: &Path, decode: bool) -> Seen {
    read(ImageReader::open(path).and_then(ImageReader::with_guessed_format), decode)
}

fn read<R: std::io::BufRead + std::io::Seek>(reader: std::io::Result<ImageReader<R>>, decode: bool) -> Seen {
    let size = reader.map_err(|e| e.to_string()).and_then(|reader| {
        if decode {
            reader.decode().map(|image| (image.width(), image.height())).map_err(|e| e.to_string())
        } else {
            reader.into_dimensions().map_err(|e| e.to_string())
        }
    });
    match size {
        Ok((width, height)) => Seen::Size(width, height),
        Err(reason) => Seen::Wrong(Fault::error(
            "image-unreadable",
            format!("a picture that cannot be read: {reason}"),
            "replace the file; PNG and JPEG are read",
        )),
    }
}
