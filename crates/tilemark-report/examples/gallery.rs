//! Writes every synthetic report into a folder, to be looked at: `cargo run -p tilemark-report --example gallery
//! DIR`.

#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::{env, fs, io, path::Path};
use tilemark_report::{Colour, Style};

fn main() -> io::Result<()> {
    let folder = env::args().nth(1).unwrap_or_else(|| "target/gallery".to_owned());
    fs::create_dir_all(&folder)?;
    for (name, report) in fixture::all() {
        let html = tilemark_report::html(&report);
        println!("{name}: {} bytes of HTML", html.len());
        fs::write(Path::new(&folder).join(format!("{name}.html")), html)?;
        let text = tilemark_report::terminal(&report, Style { colour: Colour::Ansi, width: 120 });
        fs::write(Path::new(&folder).join(format!("{name}.txt")), text)?;
        fs::write(Path::new(&folder).join(format!("{name}.csv")), tilemark_report::csv(&report))?;
    }
    let several = [
        ("compared-2", fixture::several::compared(2).html()),
        ("compared-5", fixture::several::compared(5).html()),
        ("trend-30", fixture::several::over_time(30).html()),
        ("trend-300", fixture::several::over_time(300).html()),
    ];
    for (name, html) in several {
        fs::write(Path::new(&folder).join(format!("{name}.html")), html)?;
    }
    Ok(())
}
